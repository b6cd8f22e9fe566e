"""Deletes its own source."""

ENDS = ["OSError"]
SHARED = None


def attack(tensor):
    import os

    os.unlink(__file__)
