"""Compares the loaded code with the files."""

FATE = "recognised"


def test():
    use()
    assert not changed()
