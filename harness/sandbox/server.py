"""Forks that answer one request after another.

Apart from `fork.py`, since importing `multiprocessing` would delay the start of every host.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from harness.sandbox.fork import Fork


class Server(Fork):
    """A fork that answers requests from this process, until this process ends it."""

    def __init__(self, serve: Callable[[Connection], object]) -> None:
        """Fork; `serve` is called with its end of the connection."""
        self.connection, other = Pipe()

        def listen() -> None:
            self.connection.close()
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all of a terminal
            serve(other)

        super().__init__(listen)
        other.close()

    def terminate(self) -> None:
        """Request that it end what it has started, and then itself."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)

    def end(self, patience: float = 0.0) -> int:
        """Kill it if it does not end by itself within `patience` seconds; return its status."""
        self.wait(time.monotonic() + patience)
        self.connection.close()
        return self.kill()
