"""Sends its result, and then does not end."""

ENDS = [None]
LIMITS = {"seconds": 5}


def attack(tensor):
    import os
    import time

    os._exit = lambda _: time.sleep(30)
