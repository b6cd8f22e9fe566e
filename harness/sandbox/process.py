"""How a child process is ended, with all of its descendants."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import Protocol

PATIENCE = 0.1
"""Seconds to wait for a process to end by itself, and again after SIGTERM."""

LONG_PATIENCE = 5.0
"""Seconds to wait for a process that has closed its pipe, and so is about to end."""


class Process(Protocol):
    """A process that can be ended."""

    @property
    def lost(self) -> bool:
        """Whether its exit status is unknown, since its host ended first."""
        ...

    def end(self, patience: float = PATIENCE) -> int:
        """Kill the process with its descendants, and wait for it; may be called repeatedly.

        It gets `patience` seconds to end by itself. Returns its exit status, negative for a signal.
        """
        ...


class SpawnedProcess:
    """A process that was started as a fresh interpreter in a session of its own."""

    lost = False

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
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        return self._process.wait()
