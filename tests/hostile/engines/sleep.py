"""Waits, and works not at all."""

ENDS = ["TimeLimit"]
LIMITS = {"seconds": 5}


def attack(tensor):
    import time

    time.sleep(60)
