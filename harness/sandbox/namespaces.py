"""Entering Linux namespaces without privileges, and dropping all privileges.

See user_namespaces(7), pid_namespaces(7), mount_setattr(2) and capabilities(7).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
import tempfile
from functools import cache
from pathlib import Path

from harness.sandbox.limits import Limits
from harness.sandbox.supervision import die_with_parent, exit_with

_NEWNS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_BIND = 0x1, 0x2, 0x4, 0x1000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
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
    """Whether the kernel grants everything that `enter_namespaces` requests.

    A short-lived process tries it: namespaces cannot be left again, and entering only some of them
    would be worse than entering none.
    """
    if sys.platform != "linux":
        return False
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            enter_namespaces(Path(tempfile.gettempdir()), Limits())
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


def enter_own_scratch(scratch: Path, limits: Limits) -> None:
    """Give this process its own empty scratch folder and its own System V IPC objects.

    It must already be in the namespaces of `enter_namespaces`, and still have its privileges.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_NEWNS | _NEWIPC))
    hide(limits)
    _mount_scratch(libc, scratch, limits)


def hide(limits: Limits) -> None:
    """Make the hidden folders and files look empty to this process, and read-only.

    Requires the same as `enter_own_scratch`.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for path in map(Path, limits.hidden):
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
    """Mount a new file system in memory at the scratch folder."""
    options = f"size={limits.file_size},nr_inodes=4096,mode=700".encode()
    _check(libc.mount(b"tmpfs", os.fsencode(scratch), b"tmpfs", _MS_NOSUID | _MS_NODEV, options))


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
