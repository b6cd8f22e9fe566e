"""Asks Python to exit."""

ENDS = ["SystemExit"]


def attack(tensor):
    import sys

    sys.exit(0)
