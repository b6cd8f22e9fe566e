"""Uses system calls that no engine needs, some of which have had security bugs."""

ENDS = ["PermissionError"]


def attack(tensor):
    import ctypes
    import os
    import struct

    libc = ctypes.CDLL(None, use_errno=True)
    intel = os.uname().machine == "x86_64"
    attributes = struct.pack("6I", 1, 112, 0, 0, 0, 0) + bytes(88)
    map_of_one = struct.pack("4I", 2, 4, 8, 1) + bytes(104)
    opened = {
        "bpf": libc.syscall(321 if intel else 280, 0, map_of_one, len(map_of_one)),
        "perf_event_open": libc.syscall(298 if intel else 241, attributes, 0, -1, -1, 0),
        "userfaultfd": libc.syscall(323 if intel else 282, 1),
        "fanotify_init": libc.syscall(300 if intel else 262, 0x200, 0),
        "io_uring_setup": libc.syscall(425, 1, ctypes.create_string_buffer(120)),
        "memfd_secret": libc.syscall(447, 0),
    }
    found = [name for name, descriptor in opened.items() if descriptor >= 0]
    if found:
        raise RuntimeError(f"not refused: {found}")
    raise PermissionError("all of them")
