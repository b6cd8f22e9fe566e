"""Asks the process that started it to end, and goes on."""

ENDS = [None, "SIGKILL", "SIGTERM"]


def attack(tensor):
    import os

    os.kill(os.getppid(), 15)
