"""Confine this process: limits everywhere, and on Linux namespaces and a supervisor as well.

In its namespaces, which require no privilege, a child can signal only its own processes, has no
network, sees only what it needs of the file system, and can write only to the scratch folder. If
the kernel grants no namespaces, the limits, the process group and the search for descendants
remain. A filter refuses system calls that would bypass all of this.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import socket
import struct
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from harness.sandbox.fork import (
    continue_as_first_process,
    continue_supervised,
    die_with_parent,
    exit_with,
)
from harness.sandbox.limits import FORKS, Limits, limit_resources
from harness.sandbox.view import NOT_NEEDED, Exposure, View, installed


def confine(scratch: Path, limits: Limits) -> None:
    """Continue in a confined process, which can change only the files in `scratch`.

    Returns in a new process. The present one supervises it, and ends with its exit status. Without
    namespaces, the file system is not protected, and descendants that leave the process group are
    found by their parents. The limits are set either way.
    """
    if sys.platform == "linux" and FORKS:
        isolated = limits.namespaces and namespaces_available()
        if isolated:
            continue_with_one_thread()
            enter_namespaces(scratch, limits)
        continue_supervised(isolated, limits.total_processes)
        if isolated:
            mount_own_proc()
            enter_view(installed(), scratch, limits)
        drop_privileges()
        refuse_system_calls()
    os.chdir(scratch)
    limit_resources(limits)


def confine_host(scratch: Path, limits: Limits, control: int) -> bool:
    """Continue as the first process of new namespaces; return whether the kernel grants them.

    The process keeps the descriptor `control`, and its privileges within the namespaces, so that it
    can give each child its own view of the file system. It itself sees the whole file system.
    """
    if sys.platform != "linux" or not limits.namespaces or not namespaces_available():
        return False
    enter_namespaces(scratch, limits)
    continue_as_first_process(control)
    mount_own_proc()
    return True


# ----- Namespaces -----
#
# See user_namespaces(7), pid_namespaces(7), mount_setattr(2) and capabilities(7).

_NEWNS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_BIND = 0x1, 0x2, 0x4, 0x1000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_SYS_PIVOT_ROOT, _MNT_DETACH = {"x86_64": 155, "aarch64": 41}, 0x2
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 0x1, 0x2, 0x4
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _CAPABILITY_VERSION = 24, 38, 0x20080522
_HARMLESS_DEVICES = (b"/dev/null", b"/dev/zero", b"/dev/random", b"/dev/urandom")


def continue_with_one_thread() -> None:
    """Return in a process with a single thread: a process with several cannot leave its namespaces.

    A fresh interpreter has the threads of NumPy's linear algebra.
    """
    if len(list(Path("/proc/self/task").iterdir())) == 1:
        return
    child = os.fork()
    if child:
        exit_with(os.waitpid(child, 0)[1])
    die_with_parent()


@cache
def namespaces_available() -> bool:
    """Whether the kernel grants everything that `enter_namespaces` and `enter_view` request.

    A short-lived process tries it: namespaces cannot be left again, and entering only some of them
    would be worse than entering none.
    """
    if sys.platform != "linux" or not FORKS:
        return False
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            scratch = Path(tempfile.gettempdir())
            enter_namespaces(scratch, Limits())
            enter_view(View(), scratch, Limits())
            status = 0
        os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def enter_namespaces(scratch: Path, limits: Limits) -> None:
    """Move this process, and its future children, to new namespaces.

    Only `scratch`, a new file system in memory, can be written to. Raises OSError or AttributeError
    if the kernel or the C library does not support it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    _check(libc.unshare(_NEWUSER | _NEWNS | _NEWPID | _NEWNET | _NEWIPC))
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        Path("/proc/self", name).write_text(text, encoding="ascii")
    with contextlib.suppress(OSError):  # a nested user namespace could mount file systems
        Path("/proc/sys/user/max_user_namespaces").write_text("0", encoding="ascii")
    _check(libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))
    _mount_scratch(libc, scratch, limits)
    devices = [path for path in _HARMLESS_DEVICES if _bind_to_itself(libc, path)]
    _set_attributes(libc, b"/", _AT_RECURSIVE, _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV, 0)
    _set_attributes(libc, os.fsencode(scratch), 0, 0, _ATTR_RDONLY)
    for path in devices:
        _set_attributes(libc, path, 0, 0, _ATTR_NODEV)


def mount_own_proc() -> None:
    """Show only the processes of this PID namespace in `/proc`, if the kernel allows it.

    A process in the namespace calls it before it drops its privileges. It hides the user's other
    processes and their environments.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mount(b"proc", b"/proc", b"proc", _MS_RDONLY | _MS_NOSUID | _MS_NODEV, None)


def enter_view(view: View, scratch: Path, limits: Limits) -> None:
    """Show this process only what it needs, and an empty scratch folder of its own.

    That is `view` and `limits.visible` without `limits.hidden`, harmless devices and `/proc`; only
    the scratch folder can be written to. System V IPC objects are its own too. The process must
    already be in the namespaces of `enter_namespaces`, and still have its privileges.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_NEWNS | _NEWIPC))
    view = view.copy()
    for path in (*limits.visible, "/proc", *map(os.fsdecode, _HARMLESS_DEVICES)):
        view.add(path)
    _mount_memory(libc, scratch, "size=1m,nr_inodes=16k,mode=755")
    _mount_view(libc, view, scratch)
    inside = _below(scratch, scratch)
    inside.mkdir(parents=True, exist_ok=True)
    _mount_scratch(libc, inside, limits)
    os.chdir(scratch)
    _check(libc.syscall(_SYS_PIVOT_ROOT[platform.machine()], b".", b"."))
    _check(libc.umount2(b".", _MNT_DETACH))  # the old root, which is on top of the new one
    os.chdir("/")
    hide((*limits.hidden, *NOT_NEEDED))
    _set_attributes(libc, b"/", 0, _ATTR_RDONLY, 0)
    os.chdir(scratch)


def _mount_view(libc: ctypes.CDLL, view: View, root: Path) -> None:
    """Create the folders and links of a view below `root`, and bind there what it exposes."""
    for path, kind in view.steps.items():
        target = _below(root, Path(path))
        if isinstance(kind, str):
            target.symlink_to(kind)
            continue
        if kind is Exposure.FOLDER or Path(path).is_dir():
            target.mkdir()
        else:
            target.touch()
        if kind is Exposure.EXPOSED:
            source = os.fsencode(path)
            _check(libc.mount(source, bytes(target), None, _MS_BIND | _MS_REC, None))


def _below(root: Path, path: Path) -> Path:
    """Return the place of an absolute path when `root` stands for `/`."""
    return root / path.relative_to("/")


def hide(paths: Iterable[str]) -> None:
    """Make these folders and files appear empty and read-only to this process.

    Requires the same as `enter_view`.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for path in map(Path, paths):
        if path.is_dir():
            flags = _MS_RDONLY | _MS_NOSUID | _MS_NODEV
            _check(libc.mount(b"tmpfs", bytes(path), b"tmpfs", flags, b"size=4k"))
        elif path.exists():
            _check(libc.mount(b"/dev/null", bytes(path), None, _MS_BIND, None))


def drop_privileges() -> None:
    """Drop every capability, and keep programs that are started from gaining any.

    A process that enters a user namespace has all of them there, and root has them anyway; with
    them, the child could undo its confinement.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for capability in range(64):  # the kernel refuses the numbers that it does not know
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    none = struct.pack("6I", *[0] * 6)  # effective, permitted, inheritable: two words each
    libc.capset(struct.pack("Ii", _CAPABILITY_VERSION, 0), none)


def _mount_scratch(libc: ctypes.CDLL, scratch: Path, limits: Limits) -> None:
    _mount_memory(libc, scratch, f"size={limits.file_size},nr_inodes=4096,mode=700")


def _mount_memory(libc: ctypes.CDLL, folder: Path, options: str) -> None:
    """Mount a new file system in memory at a folder."""
    flags = _MS_NOSUID | _MS_NODEV
    _check(libc.mount(b"tmpfs", bytes(folder), b"tmpfs", flags, options.encode()))


def _bind_to_itself(libc: ctypes.CDLL, path: bytes) -> bool:
    """Make a mount of one file, so that it can have attributes of its own."""
    return bool(libc.mount(path, path, None, _MS_BIND, None) == 0)


def _set_attributes(libc: ctypes.CDLL, path: bytes, flags: int, to_set: int, to_clear: int) -> None:
    """Change the attributes of mounts; `struct mount_attr` is four 64-bit numbers."""
    attributes = struct.pack("QQQQ", to_set, to_clear, 0, 0)
    _check(libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, path, flags, attributes, len(attributes)))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


# ----- Refused system calls -----
#
# These calls reach outside programs through sockets, allocate memory that no limit counts, create
# objects that outlive every process, or read or change other processes. See seccomp(2); the numbers
# are from the kernel's `unistd.h` for each architecture.

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
