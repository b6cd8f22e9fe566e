"""In a child: compute bytes in a fork, which leaves the child itself as it was."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from typing import NoReturn

from harness.sandbox.frames import LARGEST_BODY, write_all
from harness.sandbox.supervision import die_with_parent


def can_fork() -> bool:
    """Whether a fork of this process has everything that the process has."""
    return hasattr(os, "fork") and threading.active_count() == 1  # a fork has no other threads


def compute_in_fork(work: Callable[[], bytes], cpu_seconds: float | None = None) -> bytes | None:
    """Return what `work` returns in a fork of this process.

    None if the fork ends without a result, for example after `cpu_seconds` of processor time.
    """
    results, pipe = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(results)
        _work(work, pipe, cpu_seconds)
    os.close(pipe)
    try:
        return _read(results)
    finally:
        os.close(results)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _work(work: Callable[[], bytes], pipe: int, cpu_seconds: float | None) -> NoReturn:
    try:
        die_with_parent()
        if cpu_seconds is not None:
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        data = work()
        write_all(pipe, len(data).to_bytes(4, "big") + data)
    finally:
        os._exit(0)


def _read(pipe: int) -> bytes | None:
    """Return the result; a process that the fork has left may keep the pipe open."""
    head = _read_exactly(pipe, 4)
    length = int.from_bytes(head, "big")
    data = b"" if len(head) < 4 or length > LARGEST_BODY else _read_exactly(pipe, length)
    return data if len(head) == 4 and len(data) == length else None


def _read_exactly(pipe: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = os.read(pipe, count - len(data))
        if not piece:
            break
        data += piece
    return data
