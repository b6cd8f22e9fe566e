"""In a child: compute bytes in a fork, which leaves the child itself as it was."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from harness.sandbox.frames import LARGEST_BODY, write_all
from harness.sandbox.limits import end_after
from harness.sandbox.supervision import die_with_parent


def can_fork() -> bool:
    """Whether a fork of this process has everything that the process has."""
    return hasattr(os, "fork") and threading.active_count() == 1  # a fork has no other threads


def compute_in_fork(
    work: Callable[[], bytes], cpu_seconds: float | None = None, seconds: float = math.inf
) -> bytes | None:
    """Return what `work` returns in a fork of this process.

    None if the fork ends without a result, for example after `cpu_seconds` of processor time, or
    has none after `seconds`. Afterwards, the fork and the process group that it leads are killed.
    """
    results, pipe = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(results)
        _work(work, pipe, cpu_seconds)
    os.close(pipe)
    fork = _Fork(child, results, time.monotonic() + seconds)
    try:
        head = fork.read(4)
        length = int.from_bytes(head, "big")
        if len(head) < 4 or length > LARGEST_BODY:
            return None
        data = fork.read(length)
        return data if len(data) == length else None
    finally:
        os.close(results)
        fork.end()


def _work(work: Callable[[], bytes], pipe: int, cpu_seconds: float | None) -> NoReturn:
    try:
        die_with_parent()
        if cpu_seconds is not None:
            end_after(cpu_seconds)
        data = work()
        write_all(pipe, len(data).to_bytes(4, "big") + data)
    finally:
        os._exit(0)


class _Fork:
    """A fork of this process, and the pipe that it writes to."""

    def __init__(self, pid: int, pipe: int, end: float) -> None:
        self._pid, self._pipe, self._end, self._ended = pid, pipe, end, False

    def read(self, count: int) -> bytes:
        """Read until there are `count` bytes, or the fork or its time has ended."""
        data = b""
        while len(data) < count:
            if select.select([self._pipe], [], [], 0 if self._ended else 0.05)[0]:
                piece = os.read(self._pipe, count - len(data))
                if not piece:
                    break
                data += piece
            elif self._ended or time.monotonic() > self._end:
                break
            else:
                self._ended = os.waitpid(self._pid, os.WNOHANG)[0] != 0
        return data

    def end(self) -> None:
        """Kill the fork, if it has not ended, and the processes in its own group, if it has one."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        if not self._ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
