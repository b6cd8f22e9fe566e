"""Leaves a chain of processes behind: each starts the next one, and ends."""

ENDS = [None, "SIGKILL", "BlockingIOError"]


def attack(tensor):
    import os
    import time

    if os.fork() == 0:
        os.setsid()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            time.sleep(0.001)
            if os.fork():
                os._exit(0)
        os._exit(0)
