"""Stops every process that it can."""

ENDS = ["TimeLimit"]
SHARED = None
SLOW = True
LIMITS = {"seconds": 2}


def attack(tensor):
    import os
    import signal

    require_namespaces()
    try:
        os.kill(-1, signal.SIGSTOP)
    except ProcessLookupError:  # there is no other process
        pass
    os.kill(os.getpid(), signal.SIGSTOP)
