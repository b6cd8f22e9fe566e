"""Leaves a process behind that stops the attacker's parent after the result has been sent."""

ENDS = [None, "TimeLimit"]
LIMITS = {"seconds": 5}


def attack(tensor):
    import os
    import signal
    import time

    parent = os.getppid()
    if os.fork() == 0:
        os.setsid()
        time.sleep(0.02)
        os.kill(parent, signal.SIGSTOP)
        os._exit(0)
