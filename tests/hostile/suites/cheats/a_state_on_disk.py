"""Counts the runs in a file, and fails after the first ones."""

from pathlib import Path

FATE = "survived"


def test():
    use()
    counter = Path("counter")
    runs = len(counter.read_text()) if counter.exists() else 0
    counter.write_text("." * (runs + 1))
    assert runs < 3
