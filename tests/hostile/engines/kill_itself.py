"""Kills its own process."""

ENDS = ["SIGKILL"]


def attack(tensor):
    import os

    os.kill(os.getpid(), 9)
