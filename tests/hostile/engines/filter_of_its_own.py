"""Makes the kernel refuse to write, for all of its threads."""

ENDS = ["any"]


def attack(tensor):
    import ctypes
    import os
    import struct

    libc = ctypes.CDLL(None, use_errno=True)
    number = 1 if os.uname().machine == "x86_64" else 64
    steps = (0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50005), (0x06, 0, 0, 0x7FFF0000)
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HP", len(steps), ctypes.addressof(code))
    libc.prctl(38, 1, 0, 0, 0)
    libc.syscall(317 if number == 1 else 277, 1, 1, program)
