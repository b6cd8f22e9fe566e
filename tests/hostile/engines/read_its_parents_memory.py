"""Reads the memory of the process that forked it."""

ENDS = ["PermissionError"]


def attack(tensor):
    import os

    open(f"/proc/{os.getppid()}/mem", "rb").close()
