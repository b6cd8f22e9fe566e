"""Calls itself without end."""

ENDS = ["RecursionError"]


def attack(tensor):
    attack(tensor)
