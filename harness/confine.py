"""Confinement: what a child process may use, and what of the machine it can see and change.

Limits of the process hold on every POSIX system. On Linux the child gets namespaces of its own as
well, which need no privilege: it sees no process but its own, no network, and a file system that
is read-only but for its scratch folder. The first process of such a world takes all others with it
when it ends, whatever sessions and daemons they have become. Where the kernel does not grant this,
the limits and the process group have to do; `confine` says which it was.

See user_namespaces(7), pid_namespaces(7), mount_setattr(2), setrlimit(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

_MIB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """What a child may use."""

    seconds: float = 60.0
    """Of the clock, for the import of the engine, for each run with its measurements, or for a
    whole program: for what waits and does not work."""
    cpu_seconds: int = 5
    """Of processor time, likewise; whole seconds, as the kernel counts them."""
    memory: int = 2048 * _MIB
    """Bytes of address space, beyond what the child starts with."""
    file_size: int = 16 * _MIB
    """Bytes in one file, and in all of the scratch folder where that can be confined."""
    open_files: int = 128
    processes: int = 64
    """Processes and threads that may ever be started, beyond a few for each processor."""


# ----- Limits of one process -----


def limit(limits: Limits) -> None:
    """Set the limits of this process, which none of its children can raise."""
    if resource is None:
        return
    with contextlib.suppress(OSError):  # no /proc: the address space is not limited
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        _set(resource.RLIMIT_AS, pages * os.sysconf("SC_PAGE_SIZE") + limits.memory)
    _set(resource.RLIMIT_FSIZE, limits.file_size)
    _set(resource.RLIMIT_NOFILE, limits.open_files)
    _set(resource.RLIMIT_CORE, 0)
    _set(resource.RLIMIT_NPROC, _most_processes(limits))


def allow_time(limits: Limits) -> None:
    """Give this process `cpu_seconds` from now on; the kernel ends it with SIGXCPU after that."""
    if resource is None:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + 1 + limits.cpu_seconds
    with contextlib.suppress(ValueError, OSError):  # a hard limit that somebody else has set
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _set(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(what, (most, most))


def _most_processes(limits: Limits) -> int:
    """NumPy's linear algebra has a few threads for each processor."""
    return limits.processes + 4 * (os.cpu_count() or 1)


# ----- A world of its own -----

_NEWNS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_REC, _MS_PRIVATE = 0x2, 0x4, 0x4000, 0x40000
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _ATTR_RDONLY = 442, -100, 0x8000, 0x1
_PR_SET_PDEATHSIG = 1


def confine(scratch: Path, limits: Limits) -> bool:
    """Go on in a process of a world of its own, of which `scratch` is the only writable part.

    Returns in that process, whose end the present one then shares; True if the kernel granted the
    world, False if it did not, and then this is still the same process. Limits are set either way.
    """
    granted = sys.platform == "linux" and _leave(scratch, limits)
    if granted:
        _become_the_second_process(limits)
    os.chdir(scratch)
    limit(limits)
    return granted


def _leave(scratch: Path, limits: Limits) -> bool:
    """Leave the namespaces of the parent, all or none; children will be in the new ones."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    try:
        _check(libc.unshare(_NEWUSER | _NEWNS | _NEWPID | _NEWNET | _NEWIPC))
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            Path("/proc/self", name).write_text(text, encoding="ascii")
        _check(libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))
        here, size = os.fsencode(scratch), f"size={limits.file_size}".encode()
        _check(libc.mount(b"tmpfs", here, b"tmpfs", _MS_NOSUID | _MS_NODEV, size))
        _set_attributes(libc, b"/", _AT_RECURSIVE, set_=_ATTR_RDONLY)
        _set_attributes(libc, here, 0, clear=_ATTR_RDONLY)
    except (OSError, AttributeError):
        return False
    return True


def _set_attributes(
    libc: ctypes.CDLL, path: bytes, flags: int, *, set_: int = 0, clear: int = 0
) -> None:
    """Make mounts read-only or writable; `struct mount_attr` is four 64-bit numbers."""
    attributes = struct.pack("QQQQ", set_, clear, 0, 0)
    _check(libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, path, flags, attributes, len(attributes)))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _become_the_second_process(limits: Limits) -> None:
    """Return in the second process of the new world; the first one looks after it.

    The engine must not be the first itself: that one cannot be killed by signals from inside, so a
    segmentation fault there would look like something else.
    """
    reader, writer = os.pipe()
    first = os.fork()
    if first:
        os.close(writer)
        _end_as(reader, first)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.close(reader)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    second = os.fork()
    if second:
        _look_after(second, writer, _most_processes(limits))
    os.close(writer)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _end_as(reader: int, first: int) -> NoReturn:
    """End as the engine's process did, of which the first process reports the status."""
    said = os.read(reader, 4)
    os.waitpid(first, 0)
    code = os.waitstatus_to_exitcode(int.from_bytes(said, "big")) if len(said) == 4 else 1
    if code < 0:
        if resource is not None:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(-code, signal.SIG_DFL) if -code not in (9, 19) else None
        os.kill(os.getpid(), -code)
    os._exit(max(code, 0))


def _look_after(second: int, writer: int, most: int) -> NoReturn:
    """Wait for the engine's process, and end the world with it, or when it has grown too large."""
    status = None
    while status is None:
        signal.sigtimedwait({signal.SIGCHLD}, 0.05)
        status = _reap(second)
        if status is None and _ever_started() > most:
            status = signal.SIGKILL  # as a wait status: ended by this signal
    os.write(writer, status.to_bytes(4, "big"))
    os._exit(0)


def _reap(second: int) -> int | None:
    """Collect whoever has ended; the status of the second process once it has."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == second:
                return status
            if pid == 0:
                break
    return None


def _ever_started() -> int:
    """How many processes and threads this world has seen: the last number that it gave out."""
    try:
        return int(Path("/proc/sys/kernel/ns_last_pid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
