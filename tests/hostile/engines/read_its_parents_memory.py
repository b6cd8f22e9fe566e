"""Reads and writes the process that forked it."""

ENDS = ["PermissionError", "FileNotFoundError"]


def attack(tensor):
    import os

    with open(f"/proc/{os.getppid()}/mem", "r+b", buffering=0) as memory:
        memory.seek(4096)
    with open(f"/proc/{os.getppid()}/environ", "rb") as environ:
        environ.read()
