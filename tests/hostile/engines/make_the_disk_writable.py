"""Mounts the disk anew, so that it could be written."""

ENDS = ["OSError"]
SHARED = None


def attack(tensor):
    import ctypes
    import os
    import struct

    require_namespaces()
    libc = ctypes.CDLL(None, use_errno=True)
    nothing_but_writable = struct.pack("QQQQ", 0, 1, 0, 0)
    libc.syscall(442, -100, b"/", 0x8000, nothing_but_writable, len(nothing_but_writable))
    libc.mount(None, b"/", None, 0x20 | 0x1000, None)
    libc.umount2(os.fsencode(os.getcwd()), 2)
    open(__file__, "a").write("# changed")
