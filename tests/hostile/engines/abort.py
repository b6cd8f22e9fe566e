"""Aborts, as a failed assertion in compiled code does."""

ENDS = ["SIGABRT"]


def attack(tensor):
    import os

    os.abort()
