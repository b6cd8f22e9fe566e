"""Starts processes that are children of its parent."""

ENDS = ["SIGKILL", "OSError"]
LIMITS = {"processes": 20}


def attack(tensor):
    import ctypes
    import os
    import time

    libc = ctypes.CDLL(None, use_errno=True)
    for _ in range(100):
        child = libc.syscall(56 if os.uname().machine == "x86_64" else 220, 0x8000, 0, 0, 0, 0)
        if child == 0:
            time.sleep(20)
            os._exit(0)
        if child < 0:
            raise OSError(ctypes.get_errno(), "refused")
    time.sleep(2)
