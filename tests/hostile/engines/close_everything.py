"""Closes every file that the process has open."""

ENDS = ["ProcessExit"]


def attack(tensor):
    import os

    os.closerange(0, 256)
