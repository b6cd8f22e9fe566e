"""Starts a hundred processes that stay."""

ENDS = ["SIGKILL", "BlockingIOError"]
LIMITS = {"processes": 20}


def attack(tensor):
    import os
    import time

    for _ in range(100):
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
    time.sleep(2)
