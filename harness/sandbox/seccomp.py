"""A filter that refuses system calls that bypass the limits and the namespaces.

These calls reach outside programs through sockets, allocate memory that no limit counts, create
objects that outlive every process, or read or change other processes. See seccomp(2); the numbers
are from the kernel's `unistd.h` for each architecture.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct
import sys

_SAME_EVERYWHERE = {"io_uring_setup": 425, "pidfd_getfd": 438, "memfd_secret": 447}

_REFUSED = {
    "x86_64": {
        **_SAME_EVERYWHERE,
        **{"ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311},
        **{"shmget": 29, "msgget": 68, "semget": 64, "mq_open": 240, "memfd_create": 319},
        **{"add_key": 248, "request_key": 249, "keyctl": 250},
        **{"setpriority": 141, "ioprio_set": 251},
        **{"bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "fanotify_init": 300},
    },
    "aarch64": {
        **_SAME_EVERYWHERE,
        **{"ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271},
        **{"shmget": 194, "msgget": 186, "semget": 190, "mq_open": 180, "memfd_create": 279},
        **{"add_key": 217, "request_key": 218, "keyctl": 219},
        **{"setpriority": 140, "ioprio_set": 30},
        **{"bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "fanotify_init": 262},
    },
}
"""The system calls that are refused, by architecture."""

_OF_THIS_PROCESS = {
    "x86_64": {
        **{"prlimit64": 302, "sched_setparam": 142, "sched_setscheduler": 144},
        **{"sched_setaffinity": 203, "sched_setattr": 314},
    },
    "aarch64": {
        **{"prlimit64": 261, "sched_setparam": 118, "sched_setscheduler": 119},
        **{"sched_setaffinity": 122, "sched_setattr": 274},
    },
}
"""System calls that are refused unless the first argument is 0, the calling process."""

_SOCKET = {"x86_64": 41, "aarch64": 198}
"""Refused unless the family is one of `_FAMILIES`, which do not include Unix sockets."""
_FAMILIES = socket.AF_INET, socket.AF_INET6, 16
"""The last one is AF_NETLINK, with which the C library queries the network."""

_SOCKETPAIR = {"x86_64": 53, "aarch64": 199}
"""Refused for datagrams, since either socket of a pair could send to any other Unix socket."""

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_OTHER_ABI = 0x40000000
"""System call numbers from here on belong to x32, another ABI of x86_64."""

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_LOAD, _EQUAL, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
"""Offsets into the kernel's `struct seccomp_data`."""

_DATAGRAM_OR_RAW = 2
"""The bit that SOCK_DGRAM and SOCK_RAW have in common; a raw socket becomes a datagram socket."""

_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM


def refuse_system_calls() -> None:
    """Refuse these calls in this process and all that it starts, where the kernel supports it.

    The process must already be unable to gain privileges (`PR_SET_NO_NEW_PRIVS`).
    """
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _ARCHITECTURES:
        return
    code = _program(machine)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HP", len(code) // 8, ctypes.addressof(buffer))
    ctypes.CDLL(None).prctl(_PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0)


def _program(machine: str) -> bytes:
    """Return the filter's instructions: an opcode, two relative jumps and an operand each."""
    allow, refuse = (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        refuse,
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _OTHER_ABI),
        refuse,
    ]
    for number in _REFUSED[machine].values():
        steps += [(_EQUAL, 0, 1, number), refuse]
    only_with = dict.fromkeys(_OF_THIS_PROCESS[machine].values(), (0,))
    for number, allowed in {**only_with, _SOCKET[machine]: _FAMILIES}.items():
        compared = [step for value in allowed for step in ((_EQUAL, 0, 1, value), allow)]
        block = [(_LOAD, 0, 0, _FIRST_ARGUMENT), *compared, refuse]
        steps += [(_EQUAL, 0, len(block), number), *block]
    datagram = [(_LOAD, 0, 0, _SECOND_ARGUMENT), (_HAS_BITS, 0, 1, _DATAGRAM_OR_RAW), refuse]
    steps += [(_EQUAL, 0, len(datagram), _SOCKETPAIR[machine]), *datagram, allow]
    return b"".join(struct.pack("HBBI", *step) for step in steps)
