"""Replaces the process by another program."""

ENDS = ["SIGKILL", "SIGTERM"]


def attack(tensor):
    import os

    os.execv("/bin/sleep", ["sleep", "20"])
