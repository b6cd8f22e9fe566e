"""Leaves files where it works."""

ENDS = [None]


def attack(tensor):
    import os

    for name in ("a", "b\n\x1b[31m", "-rf"):
        open(name, "w").write("litter")
    os.mkdir("folder")
    os.chmod("folder", 0)
