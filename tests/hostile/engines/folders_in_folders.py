"""Leaves folders in folders, too deep for a path or for recursion."""

ENDS = [None]


def attack(tensor):
    import os

    for _ in range(2000):
        os.mkdir("deeper")
        os.chdir("deeper")
    os.chmod(".", 0)
