"""Stops its process with a signal that cannot be caught."""

ENDS = ["TimeLimit"]
LIMITS = {"seconds": 5}


def attack(tensor):
    import os
    import signal

    os.kill(os.getpid(), signal.SIGSTOP)
