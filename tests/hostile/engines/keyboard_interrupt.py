"""Raises what Ctrl-C raises."""

ENDS = ["KeyboardInterrupt"]


def attack(tensor):
    raise KeyboardInterrupt
