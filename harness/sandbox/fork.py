"""Forks of this process: start them, read what they send until a deadline, and end them.

To this module, what a fork sends is only bytes. The parent is any process of ours: a confined
child, or the user's own pytest. The second half is about what a fork may start itself: a supervisor
waits for a child, limits the number of its descendants, and ends them with it. Without Linux, only
the child is ended; see prctl(2) and pid_namespaces(7).
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

from harness.core.errors import EnvironmentProblem, Sentence
from harness.core.message import message
from harness.sandbox.frames import LARGEST_BODY, write_all
from harness.sandbox.limits import FORKS, end_after

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

_exit = os._exit  # code under test may replace `os._exit`

INTERVAL = 0.05
"""Seconds after which a process is looked at if it neither sends anything nor ends.

Processes that a fork has started may hold its pipe.
"""


def can_fork() -> bool:
    """Whether a fork of this process has everything that the process has."""
    return FORKS and threading.active_count() == 1  # a fork has no other threads


def require_fork(what: Sentence) -> None:
    """Raise EnvironmentProblem if this process cannot fork, which `what` does."""
    if not FORKS:
        raise EnvironmentProblem(
            message("{what} needs `fork`, which this system does not have", what=what),
            "run it in Linux: on Windows in WSL, or anywhere in a container",
        )


class Fork:
    """A fork of this process, which calls a function and ends; it ends when this process does.

    It is never killed once it is reaped: its ID may be reused.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        """Fork. An exception in `work` ends the fork with the status 1."""
        self.status: int | None = None
        """Its wait status, once it has been reaped."""
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                die_with_parent()
                work()
                status = 0
            finally:
                _exit(status)

    def poll(self) -> int | None:
        """Reap the fork if it has ended, and return its wait status."""
        if self.status is None:
            self._reap(os.WNOHANG)
        return self.status

    def _reap(self, options: int) -> None:
        try:
            ended, status = os.waitpid(self.pid, options)
        except ChildProcessError:  # code under test has reaped it: how it ended is not known
            ended, status = self.pid, 1 << 8
        if ended:
            self.status = status

    def wait(self, end: float) -> int | None:
        """Wait for it to end by itself; return its wait status, or None at the time `end`.

        The time is that of `time.monotonic`.
        """
        while self.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        return self.status

    def kill(self) -> int:
        """Kill the fork if it has not ended, and return its wait status."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # reaped meanwhile by code under test
                os.kill(self.pid, signal.SIGKILL)
            self._reap(0)
        assert self.status is not None
        return self.status


class Sender(Fork):
    """A fork that leads a process group and sends bytes through a pipe."""

    def __init__(self, work: Callable[[int], object], closed: Iterable[int] = ()) -> None:
        """Fork; `work` is called with the pipe to write to. The fork closes `closed`."""
        self.pipe, theirs = os.pipe()

        def lead() -> None:
            os.setpgid(0, 0)  # the processes that it starts can be ended with it
            for descriptor in (self.pipe, *closed):
                os.close(descriptor)
            work(theirs)

        super().__init__(lead)
        os.close(theirs)

    def read(self, most: int, end: float = math.inf) -> bytes:
        """Return the next bytes that it sends, at most `most`.

        Nothing if it has closed its pipe, has ended, or sends nothing before the time `end`.
        Processes that it has started may keep the pipe open.
        """
        while True:
            ended = self.poll() is not None  # checked first, so that its last bytes are read
            if select.select([self.pipe], [], [], 0 if ended else INTERVAL)[0]:
                return os.read(self.pipe, most)
            if ended or time.monotonic() > end:
                return b""

    def read_exactly(self, count: int, end: float = math.inf) -> bytes:
        """Return the next `count` bytes; fewer if `read` returns nothing before."""
        data = bytearray()
        while len(data) < count and (piece := self.read(count - len(data), end)):
            data += piece
        return bytes(data)

    def close(self) -> None:
        """Kill the fork and its process group, and close the pipe."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.kill()
        os.close(self.pipe)


def compute_in_fork(
    work: Callable[[], bytes], cpu_seconds: float | None = None, seconds: float = math.inf
) -> bytes | None:
    """Return what `work` returns in a fork of this process.

    None if the fork ends without a result, for example after `cpu_seconds` of processor time, or
    has none after `seconds`. Afterwards, the fork and its process group are killed.
    """

    def send(pipe: int) -> None:
        if cpu_seconds is not None:
            end_after(cpu_seconds)
        data = work()
        write_all(pipe, len(data).to_bytes(4, "big") + data)

    fork, end = Sender(send), time.monotonic() + seconds
    try:
        head = fork.read_exactly(4, end)
        length = int.from_bytes(head, "big")
        if len(head) < 4 or length > LARGEST_BODY:
            return None
        data = fork.read_exactly(length, end)
        return data if len(data) == length else None
    finally:
        fork.close()


# ----- Descendants -----

_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" and FORKS else None
"""Looked up once: doing it in each fork would copy a hundred pages of memory."""

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36

_WAITED_FOR = {signal.SIGCHLD, signal.SIGTERM} if FORKS else set()


def die_with_parent(signum: int | None = None) -> None:
    """Have the kernel send this process a signal, by default SIGKILL, when its parent ends."""
    if _prctl:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL if signum is None else signum)


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
        status_of_child = wait_for_child(
            child, _is_told_to_end, lambda: _count_ever_started() > most
        )
        os.write(writer, status_of_child.to_bytes(4, "big"))
        os._exit(0)
    die_with_parent()
    os.close(reader)
    os.close(writer)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WAITED_FOR)


def _supervise_descendants(most: int) -> None:
    adopt_descendants()
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    die_with_parent(
        signal.SIGTERM
    )  # `wait_for_child` returns on it, so that descendants can be killed
    child = os.fork()
    if child:
        close_all_but()
        status = wait_for_child(child, _is_told_to_end, lambda: len(_descendants()) > most)
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


def wait_for_child(child: int, must_end: Callable[[], bool], too_many: Callable[[], bool]) -> int:
    """Return the wait status of a child, or that of SIGKILL if it has to be killed.

    Other processes that have ended are reaped meanwhile: this process may have adopted them.
    `must_end` waits for an event, at most for `INTERVAL`, and returns whether the child must end;
    `too_many` returns whether too many processes have been started.
    """
    while True:
        ends = must_end()
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == child:
                    return ended[1]
        if ends or too_many():
            return signal.SIGKILL  # the wait status of a signal is its number


def _is_told_to_end() -> bool:
    """In a supervisor: wait for a signal, and return whether it is SIGTERM."""
    received = signal.sigtimedwait(_WAITED_FOR, INTERVAL)
    return received is not None and received.si_signo == signal.SIGTERM


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
