"""Compares the lines that tracebacks show with the files."""

import linecache

FATE = "survived"


def test():
    use()
    for file in FOLDER.rglob("*.py"):
        assert "".join(linecache.getlines(str(file))) in ("", file.read_text())
