"""A filter that refuses system calls that bypass the limits and the namespaces.

These calls connect to outside programs through Unix sockets, allocate memory that no limit counts,
leave memory behind, or read and write the memory of other processes. See seccomp(2); the numbers
are from the kernel's `unistd.h` for each architecture.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys

_SAME_EVERYWHERE = {"io_uring_setup": 425, "memfd_secret": 447}

_NUMBERS = {
    "x86_64": {
        **_SAME_EVERYWHERE,
        **{"socket": 41, "ptrace": 101, "shmget": 29, "msgget": 68, "semget": 64},
        **{"memfd_create": 319, "process_vm_readv": 310, "process_vm_writev": 311},
    },
    "aarch64": {
        **_SAME_EVERYWHERE,
        **{"socket": 198, "ptrace": 117, "shmget": 194, "msgget": 186, "semget": 190},
        **{"memfd_create": 279, "process_vm_readv": 270, "process_vm_writev": 271},
    },
}
"""The system calls that are refused, by architecture; `socket` only for Unix sockets."""

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_OTHER_ABI = 0x40000000
"""System call numbers from here on belong to x32, another ABI of x86_64."""

_PR_SET_SECCOMP, _MODE_FILTER, _AF_UNIX = 22, 2, 1
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Offsets into the kernel's `struct seccomp_data`."""

_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM


def refuse_system_calls() -> None:
    """Refuse these calls in this process and all that it starts, where the kernel supports it.

    The process must already be unable to gain privileges (`PR_SET_NO_NEW_PRIVS`).
    """
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _NUMBERS:
        return
    code = _program(_ARCHITECTURES[machine], dict(_NUMBERS[machine]))
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HP", len(code) // 8, ctypes.addressof(buffer))
    ctypes.CDLL(None).prctl(_PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0)


def _program(architecture: int, numbers: dict[str, int]) -> bytes:
    """Return the filter's instructions: an opcode, two relative jumps and an operand each."""
    socket = numbers.pop("socket")
    refused = list(numbers.values())
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, len(refused) + 3, 0, _OTHER_ABI),
        *((_EQUAL, len(refused) + 2 - place, 0, number) for place, number in enumerate(refused)),
        (_EQUAL, 0, 3, socket),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_EQUAL, 0, 1, _AF_UNIX),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("HBBI", *step) for step in steps)
