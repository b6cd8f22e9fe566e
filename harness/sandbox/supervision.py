"""The supervisor: a process that waits for a child, limits its descendants, and ends with it.

On Linux only; see prctl(2) and pid_namespaces(7).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
"""Looked up once: doing it in each fork would copy a hundred pages of memory."""

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36

_WAITED_FOR = {signal.SIGCHLD, signal.SIGTERM} if sys.platform != "win32" else set()


def die_with_parent(signum: int = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when its parent ends for any reason."""
    if _prctl:
        _prctl(_PR_SET_PDEATHSIG, signum)


def make_untraceable() -> None:
    """Keep the user's other processes from reading or writing the memory of this one.

    Its forks are protected too.
    """
    if _prctl:
        _prctl(_PR_SET_DUMPABLE, 0)


def adopt_descendants() -> None:
    """Become the parent of every descendant whose parent has ended."""
    if _prctl:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def continue_as_first_process(kept: int) -> None:
    """Return in a new process, the first of its PID namespace; this one ends when that one does.

    The new process keeps only the standard streams and the file descriptor `kept`.
    """
    first = os.fork()
    if first:
        close_all_but()
        exit_with(os.waitpid(first, 0)[1])
    die_with_parent()
    _ignore_own_namespace()
    close_all_but(0, 1, 2, kept)


def _ignore_own_namespace() -> None:
    """In the first process of a PID namespace: ignore signals from other processes there.

    The kernel does that for signals without a handler, and Python has one for Ctrl-C.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def count_processes(isolated: bool) -> int:
    """Return a number that grows with the descendants of this process.

    If this is the first process of a PID namespace (`isolated`), it counts all processes ever
    started there; otherwise, those that exist now.
    """
    return _count_ever_started() if isolated else len(_descendants())


def end_others(isolated: bool) -> None:
    """Kill every descendant of this process, which has adopted orphans, and wait for them.

    In the first process of a PID namespace (`isolated`), these are all other processes there.
    """
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return
    if isolated and os.getpid() == 1:
        os.kill(-1, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
    elif sys.platform == "linux":
        _kill_descendants()


def continue_supervised(isolated: bool, most: int) -> None:
    """Return in a new process, and supervise it in this one; `most` processes may be started.

    With `isolated`, the next process becomes the first one of a PID namespace, and the kernel kills
    all the others when that one ends. It supervises the child rather than being the child: signals
    from within the namespace do not kill the first process, so an abort would go unnoticed.
    """
    if isolated:
        _supervise_in_namespace(most)
    else:
        _supervise_descendants(most)


def exit_with(status: int) -> NoReturn:
    """End this process with the wait status of another: the same exit code, or the same signal."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # the action of some signals cannot be changed
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 1)


def _supervise_in_namespace(most: int) -> None:
    reader, writer = os.pipe()
    first = os.fork()
    if first:
        close_all_but(reader)
        status = os.read(reader, 4)
        os.waitpid(first, 0)
        exit_with(int.from_bytes(status, "big") if status else signal.SIGKILL)
    die_with_parent()
    _ignore_own_namespace()
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    child = os.fork()
    if child:
        close_all_but(writer)  # otherwise a pipe that the child closes would stay open
        status_of_child = _wait_for(child, lambda: _count_ever_started() > most)
        os.write(writer, status_of_child.to_bytes(4, "big"))
        os._exit(0)
    die_with_parent()
    os.close(reader)
    os.close(writer)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WAITED_FOR)


def _supervise_descendants(most: int) -> None:
    adopt_descendants()
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    die_with_parent(signal.SIGTERM)  # `_wait_for` returns on it, so that descendants can be killed
    child = os.fork()
    if child:
        close_all_but()
        status = _wait_for(child, lambda: len(_descendants()) > most)
        _kill_descendants()
        exit_with(status)
    die_with_parent()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WAITED_FOR)


def close_all_but(*kept: int) -> None:
    """Close every file descriptor of the process except these."""
    previous = -1
    for descriptor in sorted(kept):
        if descriptor:  # os.closerange(0, 0) closes every descriptor
            os.closerange(previous + 1, descriptor)
        previous = descriptor
    os.closerange(previous + 1, os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else 256)


def _wait_for(child: int, too_many: Callable[[], bool]) -> int:
    """Return the child's wait status, or that of SIGKILL after `too_many` processes or SIGTERM."""
    while True:
        received = signal.sigtimedwait(_WAITED_FOR, 0.05)
        status = reap(child)
        if status is not None:
            return status
        if too_many() or (received and received.si_signo == signal.SIGTERM):
            return signal.SIGKILL  # the wait status of a signal is its number


def reap(child: int) -> int | None:
    """Reap all processes that have ended; return the wait status of `child` if it is among them."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == child:
            return status
        if pid == 0:
            return None


def _count_ever_started() -> int:
    """Return the number of processes and threads ever started in this PID namespace."""
    try:
        return int(Path("/proc/sys/kernel/ns_last_pid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def _descendants() -> list[int]:
    """Return this process's descendants; it has adopted those whose parents have ended."""
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
    """Kill all descendants, and those that they start meanwhile, for at most a second."""
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
