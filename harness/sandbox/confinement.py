"""Confinement: what a child process may use, and what of the machine it can see and change.

Limits of the process hold on every POSIX system. On Linux the child gets namespaces of its own as
well, which need no privilege: it can signal no process but its own, there is no network, and the
file system is read-only but for its scratch folder. The first process of such a world takes all
others with it when it ends, whatever sessions and daemons they have become. Where the kernel does
not grant this, the limits and the process group have to do; `confine` says which it was.

See user_namespaces(7), pid_namespaces(7), mount_setattr(2), setrlimit(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
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
    cpu_seconds: int = 3
    """Of processor time, likewise; whole seconds, as the kernel counts them."""
    memory: int = 2048 * _MIB
    """Bytes of address space, beyond what the child starts with."""
    file_size: int = 16 * _MIB
    """Bytes in one file, and in all of the scratch folder where that can be confined."""
    open_files: int = 128
    processes: int = 64
    """Processes and threads that may ever be started, beyond a few for each processor."""
    own_world: bool = True
    """Ask the kernel for namespaces; without, what it does where it grants none."""


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
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 0x1, 0x2, 0x4
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _CAPABILITY_VERSION = 24, 38, 0x20080522
_HARMLESS_DEVICES = (b"/dev/null", b"/dev/zero", b"/dev/random", b"/dev/urandom")


def confine(scratch: Path, limits: Limits) -> bool:
    """Go on in a process that is confined: `scratch` is the only part of the disk it can change.

    Returns in that process; the present one looks after it, and ends as it does. True if the kernel
    granted a world of its own. If not, the disk is not protected, and what leaves the process group
    is found by its descent. Limits are set either way.
    """
    granted = False
    if sys.platform == "linux":
        granted = limits.own_world and worlds_are_granted()
        if granted:
            _go_on_alone()
            _leave(scratch, limits)
        _stand_aside(granted, _most_processes(limits))
        _give_up_privileges()
    os.chdir(scratch)
    limit(limits)
    return granted


def die_with_parent(signum: int = signal.SIGKILL) -> None:
    """Have this process killed when the one that started it ends, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signum)


def _go_on_alone() -> None:
    """Return in a process of one thread: no other may leave its namespaces.

    A fresh interpreter has the threads of NumPy's linear algebra.
    """
    if len(list(Path("/proc/self/task").iterdir())) == 1:
        return
    alone = os.fork()
    if alone:
        _end_as(os.waitpid(alone, 0)[1])
    die_with_parent()


@cache
def worlds_are_granted() -> bool:
    """Whether the kernel grants all that `_leave` asks for: a process that ends at once tries it.

    Half a world would be worse than none, and there is no way back out of it.
    """
    if sys.platform != "linux":
        return False
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            _leave(Path(tempfile.gettempdir()), Limits())
            status = 0
        os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def _leave(scratch: Path, limits: Limits) -> None:
    """Leave the namespaces of the parent; children will be in the new ones.

    Raises OSError or AttributeError where the kernel or the C library does not let it.
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
    with contextlib.suppress(OSError):  # no worlds within this one, in which it could mount
        Path("/proc/sys/user/max_user_namespaces").write_text("0", encoding="ascii")
    _check(libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))
    here, size = os.fsencode(scratch), f"size={limits.file_size},nr_inodes=4096".encode()
    _check(libc.mount(b"tmpfs", here, b"tmpfs", _MS_NOSUID | _MS_NODEV, size))
    harmless = [path for path in _HARMLESS_DEVICES if _bind_itself(libc, path)]
    _set_attributes(libc, b"/", _AT_RECURSIVE, _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV, 0)
    _set_attributes(libc, here, 0, 0, _ATTR_RDONLY)
    for path in harmless:
        _set_attributes(libc, path, 0, 0, _ATTR_NODEV)


def _bind_itself(libc: ctypes.CDLL, path: bytes) -> bool:
    """Make a mount of this one file, which can then have attributes of its own."""
    return bool(libc.mount(path, path, None, _MS_BIND, None) == 0)


def _give_up_privileges() -> None:
    """Keep no capability, and let no program that is started gain one.

    Whoever enters a user namespace has them all in there, and could undo what was just set up; and
    whoever is root on the machine has them anyway.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for capability in range(64):  # those that this kernel does not know are refused
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    none = struct.pack("6I", *[0] * 6)  # effective, permitted, inheritable: each in two words
    libc.capset(struct.pack("Ii", _CAPABILITY_VERSION, 0), none)


def _set_attributes(libc: ctypes.CDLL, path: bytes, flags: int, given: int, taken: int) -> None:
    """Change the attributes of mounts; `struct mount_attr` is four numbers of 64 bits."""
    attributes = struct.pack("QQQQ", given, taken, 0, 0)
    _check(libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, path, flags, attributes, len(attributes)))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _stand_aside(granted: bool, most: int) -> None:
    """Return in another process, and look after it in this one.

    In a world of its own there is a first process in between, whose end is the end of all others.
    The engine must not be the first itself: signals from inside cannot kill that one, so that an
    abort there would look like something else.
    """
    reader, writer = os.pipe()
    if granted:
        first = os.fork()
        if first:
            _let_go_of_all_but(reader)
            said = os.read(reader, 4)
            os.waitpid(first, 0)
            _end_as(int.from_bytes(said, "big") if said else signal.SIGKILL)
        die_with_parent()
    else:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    waited = {signal.SIGCHLD, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    if not granted:
        die_with_parent(signal.SIGTERM)  # which is waited for, so that descendants can be killed
    engine = os.fork()
    if engine:  # or nobody would see that the engine has closed its end of a pipe
        _let_go_of_all_but(writer)
    if engine and granted:
        status = _look_after(engine, waited, lambda: _ever_started() > most)
        os.write(writer, status.to_bytes(4, "big"))
        os._exit(0)
    if engine:
        status = _look_after(engine, waited, lambda: len(_descendants()) > most)
        _kill_descendants()
        _end_as(status)
    die_with_parent()
    os.close(reader)
    os.close(writer)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, waited)


def _let_go_of_all_but(kept: int) -> None:
    """Close every other file."""
    os.closerange(0, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def _look_after(engine: int, waited: set[signal.Signals], grown: Callable[[], bool]) -> int:
    """Wait for the engine's process; its wait status, or that of a kill where too many started."""
    while True:
        woken = signal.sigtimedwait(waited, 0.05)
        status = _reap(engine)
        if status is not None:
            return status
        if grown() or (woken and woken.si_signo == signal.SIGTERM):
            return signal.SIGKILL  # a wait status is the signal's number


def _reap(engine: int) -> int | None:
    """Collect whoever has ended; the wait status of the engine's process once it has."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == engine:
            return status
        if pid == 0:
            return None


def _end_as(status: int) -> NoReturn:
    """End with this wait status."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # of some signals nobody can change what they do
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 1)


def _ever_started() -> int:
    """How many processes and threads this world has seen: the last number that it gave out."""
    try:
        return int(Path("/proc/sys/kernel/ns_last_pid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def _descendants() -> list[int]:
    """The processes that descend from this one; what lost its parent has become our child."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it may have ended meanwhile
                after_name = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2]
                children.setdefault(int(after_name.split()[1]), []).append(int(entry.name))
    found, pending = [], [os.getpid()]
    while pending:
        pending += (below := children.get(pending.pop(), []))
        found += below
    return found


def _kill_descendants() -> None:
    """Kill all, and whatever they start meanwhile, for at most a second."""
    for _ in range(100):
        found = _descendants()
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)
