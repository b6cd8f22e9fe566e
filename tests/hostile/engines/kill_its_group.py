"""Kills its process group."""

ENDS = ["SIGKILL"]


def attack(tensor):
    import os

    os.killpg(0, 9)
