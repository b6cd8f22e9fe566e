"""Removes the scratch folder that the next probe needs."""

ENDS = ["OSError"]
SHARED = [None]


def attack(tensor):
    import os

    os.rmdir(os.getcwd())
