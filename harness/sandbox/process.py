"""The process of a child, forked or spawned, and how to end it with all of its descendants."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Protocol

PATIENCE = 0.1
"""Seconds to wait for a process to end by itself, and again after SIGTERM."""

LONG_PATIENCE = 5.0
"""Seconds to wait for a process that has closed its pipe, and so is about to end."""


class Process(Protocol):
    """A process that can be ended."""

    def end(self, patience: float = PATIENCE) -> int:
        """Kill the process with its descendants, and wait for it; may be called repeatedly.

        It gets `patience` seconds to end by itself. Returns its exit status, negative for a signal.
        """
        ...


class ForkedProcess:
    """A process that was forked from this one and leads a session of its own."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._status: int | None = None

    def end(self, patience: float = PATIENCE) -> int:
        """See `Process.end`."""
        if self._status is None:
            ended, status = self._wait(patience)
            if not ended:
                _send(os.kill, self._pid, signal.SIGTERM)  # its supervisor kills the descendants
                ended, status = self._wait(PATIENCE)
            _send(os.killpg, self._pid, signal.SIGKILL)
            if not ended:
                _send(os.kill, self._pid, signal.SIGKILL)  # it may not lead its group yet
                _, status = os.waitpid(self._pid, 0)
            self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def _wait(self, patience: float) -> tuple[int, int]:
        """Return its pid if it has ended by itself, otherwise 0, and its wait status."""
        for pause in (0.0002, 0.0005, 0.001, *[0.002] * int(patience / 0.002)):
            ended, status = os.waitpid(self._pid, os.WNOHANG)
            if ended:
                return ended, status
            time.sleep(pause)
        return 0, 0


class SpawnedProcess:
    """A process that was started as a fresh interpreter in a session of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def end(self, patience: float = PATIENCE) -> int:
        """See `Process.end`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        self._process.terminate()  # its supervisor kills the descendants
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        if hasattr(os, "killpg"):
            _send(os.killpg, self._process.pid, signal.SIGKILL)
        self._process.kill()
        return self._process.wait()


def _send(send: Callable[[int, int], None], target: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(target, signum)
