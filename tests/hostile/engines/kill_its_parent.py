"""Kills the process that started it, and goes on."""

ENDS = [None, "SIGKILL"]
SHARED = [None, "SIGKILL"]


def attack(tensor):
    import os

    os.kill(os.getppid(), 9)
