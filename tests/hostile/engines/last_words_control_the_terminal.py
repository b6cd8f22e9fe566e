"""Prints what would repaint the terminal, and dies."""

ENDS = ["ProcessExit"]


def attack(tensor):
    import os

    os.write(1, b"\x1b[2J\xff\x9b")
    os._exit(3)
