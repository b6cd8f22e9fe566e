"""Starts its own session, kills the process that forked it, and stays."""

ENDS = [None, "SIGKILL", "SIGTERM"]


def attack(tensor):
    import ctypes
    import os
    import time

    ctypes.CDLL(None).prctl(1, 0)  # PR_SET_PDEATHSIG
    if os.getpid() != os.getpgid(0):
        os.setsid()
    os.kill(os.getppid(), 9)
    time.sleep(5)
