"""Leaves a daemon that keeps every file open."""

ENDS = ["ProcessExit", "SIGKILL"]


def attack(tensor):
    import os
    import time

    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(20)
        os._exit(0)
    os.wait()
    os._exit(0)
