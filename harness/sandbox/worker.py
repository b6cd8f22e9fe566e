"""A worker: the host's side of a child process. The host requests frames, and ends the process.

The process is forked where possible; otherwise it is a fresh interpreter. Both run
`harness.sandbox.child`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
import warnings
from enum import Enum
from pathlib import Path
from typing import IO

from harness.core.vocabulary import visible
from harness.sandbox.child import Order, Pipes, Work, encode_order, run_child
from harness.sandbox.frames import Frame, decode_body, new_ticket, read_bodies, write_all
from harness.sandbox.limits import Limits
from harness.sandbox.namespaces import namespaces_available
from harness.sandbox.process import (
    LONG_PATIENCE,
    PATIENCE,
    ForkedProcess,
    Process,
    SpawnedProcess,
)

START_UP = 60.0
"""Seconds that a fresh interpreter may take to start, on a busy machine."""


class NoFrame(Enum):
    """Why a request returned no frame."""

    LATE = "it did not arrive in time"
    REFUSED = "what arrived is not a frame, or not the one that was requested"
    ENDED = "the child has ended, or has closed its pipe"


class Worker:
    """A child process, and the host's ends of its pipes."""

    def __init__(self, process: Process, tickets: int, frames: int, output: int) -> None:
        self._process, self._ticket = process, b""
        self._tickets: int | None = tickets
        self._bodies: queue.Queue[bytes | None] = queue.Queue(maxsize=1)
        self._output = b""
        self._pipe_closed = False
        self._readers = [
            threading.Thread(target=read, args=(os.fdopen(descriptor, "rb"),), daemon=True)
            for read, descriptor in ((self._read_frames, frames), (self._read_output, output))
        ]
        for reader in self._readers:
            reader.start()

    @property
    def last_output(self) -> str:
        """The end of what the child printed, on one line."""
        return " ".join(visible(self._output.decode(errors="backslashreplace")).split())[-200:]

    def wait_until_ready(self) -> None:
        """Wait for the empty frame that a fresh interpreter sends once it has started."""
        with contextlib.suppress(queue.Empty):
            if self._bodies.get(timeout=START_UP) is None:
                self._bodies.put(None)  # it has ended, as the first request will find

    def request(self, seconds: float) -> Frame | NoFrame:
        """Request the next frame with a new ticket, and wait for it."""
        self._ticket = new_ticket()
        if self._tickets is not None:
            with contextlib.suppress(OSError):  # the child has ended, or closed its pipe
                os.write(self._tickets, self._ticket)
        return self.receive(seconds)

    def receive(self, seconds: float) -> Frame | NoFrame:
        """Wait for another frame with the ticket of the last request."""
        try:
            body = self._bodies.get(timeout=seconds)
        except queue.Empty:
            return NoFrame.LATE
        if body is None:
            return NoFrame.ENDED
        return decode_body(body, self._ticket) or NoFrame.REFUSED

    def end(self) -> int:
        """End the child and all processes that it has started; may be called repeatedly.

        Returns its exit status, negative for a signal.
        """
        if self._tickets is None:
            return self._process.end()
        os.close(self._tickets)  # a child that waits for a ticket exits
        self._tickets = None
        status = self._process.end(LONG_PATIENCE if self._pipe_closed else PATIENCE)
        for _ in range(100):
            if not any(reader.is_alive() for reader in self._readers):
                break
            with contextlib.suppress(queue.Empty):  # make room, so that the reader can finish
                self._bodies.get(timeout=0.01)
        return status

    def _read_frames(self, pipe: IO[bytes]) -> None:
        """Read one frame ahead at most: an endless stream must not fill the memory."""
        with pipe, contextlib.suppress(OSError, ValueError):
            for body in read_bodies(pipe):
                self._bodies.put(body)
        self._pipe_closed = True
        self._bodies.put(None)

    def _read_output(self, pipe: IO[bytes]) -> None:
        """Read what the child prints, and keep the end."""
        with pipe, contextlib.suppress(OSError, ValueError):
            while piece := pipe.read1(65536):  # type: ignore[attr-defined]  # IO lacks it
                self._output = (self._output + piece)[-2000:]


def fork_worker(work: Work, scratch: Path, limits: Limits, *, confined: bool) -> Worker:
    """Fork a worker that yields the frames of `work`."""
    namespaces_available()  # cached here, rather than determined in every child
    (tickets, request), (receive, frames), (listen, output) = os.pipe(), os.pipe(), os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of a fork with several threads; the only ones are NumPy's idle pool and
        # the readers of workers, and the child uses neither.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.setsid()  # away from the user's terminal
            run_child(work, Pipes(tickets, frames, output), scratch, limits, confined=confined)
        os._exit(1)
    for descriptor in (tickets, frames, output):
        os.close(descriptor)
    return Worker(ForkedProcess(pid), request, receive, listen)


def spawn_worker(
    function: str, data: bytes, scratch: Path, limits: Limits, *, confined: bool
) -> Worker:
    """Start a fresh interpreter as a worker that yields the frames of a function.

    `function` is `module:function`; the function is called with `data` and a `Send`.
    """
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    process = subprocess.Popen(
        [sys.executable, "-B", "-c", "from harness.sandbox.child import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=scratch,
        env=os.environ | {"PYTHONPATH": path},
        start_new_session=True,
    )
    request, receive, listen = (
        _detach(stream) for stream in (process.stdin, process.stdout, process.stderr)
    )
    with contextlib.suppress(OSError):  # it has already ended; its exit status shows why
        write_all(request, encode_order(Order(function, data, limits, confined)))
    worker = Worker(SpawnedProcess(process), request, receive, listen)
    worker.wait_until_ready()
    return worker


def _detach(stream: IO[bytes] | None) -> int:
    """Return a descriptor of the pipe that stays open when the stream is closed."""
    assert stream is not None
    with stream:
        return os.dup(stream.fileno())
