"""Ends the process, and says that all is well."""

ENDS = ["ProcessExit"]


def attack(tensor):
    import os

    os._exit(0)
