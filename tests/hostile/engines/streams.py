"""Replaces Python's streams."""

ENDS = [None]


class Loud:
    def write(self, _):
        raise RuntimeError("no")

    flush = write


def attack(tensor):
    import sys

    sys.stdout = sys.stderr = Loud()
    sys.stdin = None
    sys.displayhook = sys.excepthook = sys.unraisablehook = None
