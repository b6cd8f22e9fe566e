"""Enters the namespaces of the host, which has another scratch folder."""

ENDS = ["PermissionError"]
SHARED = None


def attack(tensor):
    import ctypes
    import os

    require_namespaces()
    libc = ctypes.CDLL(None, use_errno=True)
    for kind in (0x20000, 0x10000000, 0x20000000, 0x40000000, 0x8000000):
        if libc.setns(os.pidfd_open(1), kind) == 0:
            return
    raise OSError(ctypes.get_errno(), "refused")
