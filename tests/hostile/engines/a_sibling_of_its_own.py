"""Leaves a process behind that is a sibling: a child of the attacker's parent."""

ENDS = [None]


def attack(tensor):
    import ctypes
    import os
    import time

    libc = ctypes.CDLL(None, use_errno=True)
    number = 56 if os.uname().machine == "x86_64" else 220
    if libc.syscall(number, 0x8000 | 17, 0, 0, 0, 0) == 0:  # CLONE_PARENT
        time.sleep(20)
        os._exit(0)
