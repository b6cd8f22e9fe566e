"""Leaves shared memory behind, which belongs to no process."""

ENDS = ["PermissionError"]


def attack(tensor):
    import ctypes
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.shmget(0x62726561, 4096, 0o1600) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
