"""Leaves a key in the keyring of the user's session, and reads the existing ones."""

ENDS = ["PermissionError"]


def attack(tensor):
    import ctypes
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    intel = os.uname().machine == "x86_64"
    for ring in (-3, -4, -5):
        arguments = (b"user", b"breaklab", b"left", 4, ring)
        if libc.syscall(248 if intel else 217, *arguments) >= 0:
            raise RuntimeError("a key was added")
    libc.syscall(250 if intel else 219, 0, -3, 0)
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
