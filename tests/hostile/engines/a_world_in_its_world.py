"""Takes namespaces of its own, in which it could mount what it likes."""

ENDS = ["OSError"]
SHARED = None


def attack(tensor):
    import ctypes
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000 | 0x20000):
        raise OSError(ctypes.get_errno(), "refused")
