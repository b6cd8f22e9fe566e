"""Leaves files in its scratch folder, and removes all permissions from the folder."""

ENDS = [None]


def attack(tensor):
    import os

    for name in ("one", "two"):
        open(name, "wb").write(bytes(4 << 20))
    os.chmod(".", 0)
