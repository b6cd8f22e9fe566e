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


class Fork:
    """A fork of this process. It is never killed once it is reaped: its ID may be reused."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None
        """Its wait status, once it has been reaped."""

    def poll(self) -> int | None:
        """Reap the fork if it has ended, and return its wait status."""
        if self.status is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if ended else None
        return self.status

    def kill(self) -> int:
        """Kill the fork if it has not ended, and return its wait status."""
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.status = os.waitpid(self.pid, 0)[1]
        return self.status

    def kill_group(self) -> None:
        """Kill the process group that the fork leads, if it leads one."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


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
    fork, end = Fork(child), time.monotonic() + seconds
    try:
        head = _read(fork, results, 4, end)
        length = int.from_bytes(head, "big")
        if len(head) < 4 or length > LARGEST_BODY:
            return None
        data = _read(fork, results, length, end)
        return data if len(data) == length else None
    finally:
        os.close(results)
        fork.kill_group()
        fork.kill()


def _work(work: Callable[[], bytes], pipe: int, cpu_seconds: float | None) -> NoReturn:
    try:
        die_with_parent()
        if cpu_seconds is not None:
            end_after(cpu_seconds)
        data = work()
        write_all(pipe, len(data).to_bytes(4, "big") + data)
    finally:
        os._exit(0)


def _read(fork: Fork, pipe: int, count: int, end: float) -> bytes:
    """Read until there are `count` bytes, or the fork or its time has ended."""
    data = b""
    while len(data) < count:
        if select.select([pipe], [], [], 0 if fork.status is not None else 0.05)[0]:
            piece = os.read(pipe, count - len(data))
            if not piece:
                break
            data += piece
        elif fork.status is not None or time.monotonic() > end:
            break
        else:
            fork.poll()
    return data
