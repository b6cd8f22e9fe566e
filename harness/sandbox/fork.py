"""Forks of this process: start them, read what they send until a deadline, and end them.

To this module, what a fork sends is only bytes. The parent is any process of ours: a confined
child, or the user's own pytest.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable

from harness.sandbox.frames import LARGEST_BODY, write_all
from harness.sandbox.limits import end_after
from harness.sandbox.supervision import die_with_parent

_exit = os._exit  # code under test may replace `os._exit`

_INTERVAL = 0.05
"""Seconds between checks whether a silent fork has ended: its children may hold its pipe open."""


def can_fork() -> bool:
    """Whether a fork of this process has everything that the process has."""
    return hasattr(os, "fork") and threading.active_count() == 1  # a fork has no other threads


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
            if select.select([self.pipe], [], [], 0 if ended else _INTERVAL)[0]:
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
