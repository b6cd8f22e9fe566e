"""Starts a process in new namespaces with a newer system call."""

ENDS = ["OSError"]
SHARED = None


def attack(tensor):
    import ctypes
    import os
    import struct

    libc = ctypes.CDLL(None, use_errno=True)
    arguments = struct.pack("11Q", 0x10000000 | 0x20000 | 0x20000000, *[0] * 3, 17, *[0] * 6)
    child = libc.syscall(435, arguments, len(arguments))
    if child == 0:
        os._exit(0)
    if child < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.waitpid(child, 0)
