"""Stops every process that it can."""

ENDS = ["TimeLimit"]
SHARED = None
SLOW = True
LIMITS = {"seconds": 2}


def attack(tensor):
    import os
    import signal

    with open("/proc/1/cmdline") as first:
        if "harness.sandbox" not in first.read():
            raise RuntimeError("this process has no namespaces of its own: nothing is tried")
    try:
        os.kill(-1, signal.SIGSTOP)
    except ProcessLookupError:  # there is no other process
        pass
    os.kill(os.getpid(), signal.SIGSTOP)
