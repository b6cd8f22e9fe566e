"""Forks that answer one request after another.

Apart from `fork.py`, since importing `multiprocessing` would delay the start of every host.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from harness.sandbox.fork import Fork

_PATIENCE = 3.0
"""Seconds for servers to end themselves and everything that they have started."""


class Server(Fork):
    """A fork that answers requests from this process, until this process ends it."""

    def __init__(self, serve: Callable[[Connection], object]) -> None:
        """Fork; `serve` is called with its end of the connection."""
        self.connection, other = Pipe()

        def listen() -> None:
            self.connection.close()
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C signals the whole terminal
            serve(other)

        super().__init__(listen)
        other.close()

    def end(self) -> int:
        """End it, after giving it a moment to end what it has started; return its wait status."""
        end_all([self])
        return self.kill()


def end_all(servers: Sequence[Server]) -> None:
    """End these servers, after giving them a moment to end what they have started."""
    for server in servers:
        server.connection.close()  # ends an idle server, however it handles SIGTERM
        if server.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # reaped meanwhile by code under test
                os.kill(server.pid, signal.SIGTERM)
    end = time.monotonic() + _PATIENCE
    for server in servers:
        server.wait(end)
        server.kill()
