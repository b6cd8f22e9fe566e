"""Leaves a message in a queue, which belongs to no process."""

ENDS = ["PermissionError"]


def attack(tensor):
    import ctypes
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    number = 240 if os.uname().machine == "x86_64" else 180
    if libc.syscall(number, b"breaklab", os.O_CREAT | os.O_RDWR, 0o600, None) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
