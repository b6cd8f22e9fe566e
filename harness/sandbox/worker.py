"""A worker: the main process's handle on a child, to request frames from it and to end it.

The child is a fork of a host where processes can fork, and a fresh interpreter elsewhere. Both run
`harness.sandbox.child`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from enum import Enum
from pathlib import Path
from typing import IO, Protocol

import msgspec

from harness.core.message import visible
from harness.sandbox.frames import (
    Frame,
    InterpreterOrder,
    Pipes,
    TaskOrder,
    decode_body,
    new_ticket,
    read_bodies,
    write_all,
    write_within,
)
from harness.sandbox.hosts import (
    LONG_PATIENCE,
    PATIENCE,
    HostedProcess,
    Opening,
    not_granted,
    start_child,
)
from harness.sandbox.limits import FORKS, Limits, child_environment, hiding_own_folders

INTERPRETER_START_UP = 60.0
"""Seconds that a fresh interpreter may take to start on a busy machine."""


class NoFrame(Enum):
    """Why a request returned no frame."""

    LATE = "it did not arrive in time"
    REFUSED = "what arrived is not a frame, or not the one that was requested"
    ENDED = "the child has ended, or has closed its pipe"


class ChildProcess(Protocol):
    """A process that can be ended."""

    @property
    def lost(self) -> bool:
        """Whether its exit status is unknown because its host ended first."""
        ...

    def end(self, patience: float = PATIENCE) -> int:
        """Kill the process and its descendants, and wait for it; may be called repeatedly.

        It has `patience` seconds to end by itself. Returns its exit status, negative for a signal.
        """
        ...


class Worker:
    """A child process, and the main process's ends of its pipes."""

    def __init__(self, process: ChildProcess, tickets: int, frames: int, output: int) -> None:
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
    def lost(self) -> bool:
        """Whether the child's exit status is unknown because its host ended first."""
        return self._process.lost

    @property
    def last_output(self) -> str:
        """The end of what the child printed, on one line."""
        return " ".join(visible(self._output.decode(errors="backslashreplace")).split())[-200:]

    def wait_until_ready(self) -> None:
        """Wait for the empty frame that a fresh interpreter sends once it has started."""
        with contextlib.suppress(queue.Empty):
            if self._bodies.get(timeout=INTERPRETER_START_UP) is None:
                self._bodies.put(None)  # it has ended; the first request will return ENDED

    def request(self, seconds: float, message: bytes | None = None) -> Frame | NoFrame:
        """Request the next frame with a new ticket, and wait for it.

        A child that expects a message with the request reads it with `Line.read_message`.
        """
        self._ticket = new_ticket()
        if self._tickets is not None:
            with contextlib.suppress(OSError):  # the child has ended, or closed its pipe
                os.write(self._tickets, self._ticket)
                if message is not None:
                    data = len(message).to_bytes(4, "big") + message
                    if not write_within(self._tickets, data, seconds):
                        return NoFrame.LATE
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


class SpawnedProcess:
    """A process that was started as a fresh interpreter in a session of its own."""

    lost = False

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def end(self, patience: float = PATIENCE) -> int:
        """See `ChildProcess.end`."""
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


def hosted_worker(opening: Opening, data: bytes, limits: Limits, forks: int = 0) -> Worker:
    """Start a worker in a fork of a host with this opening; start a host if none is idle.

    It yields the frames of the task `data`. It may fork `forks` times beyond its process limit.
    Raises EnvironmentProblem if no host can be started.
    """
    (tickets, request), (receive, frames), (listen, output) = os.pipe(), os.pipe(), os.pipe()
    pipes = Pipes(tickets, frames, output)
    try:
        host = start_child(opening, TaskOrder(data, limits, forks), pipes)
    except BaseException:
        for descriptor in (request, receive, listen):
            os.close(descriptor)
        raise
    finally:
        for descriptor in pipes:
            os.close(descriptor)
    return Worker(HostedProcess(host), request, receive, listen)


def spawn_worker(function: str, data: bytes, scratch: Path, limits: Limits) -> Worker:
    """Start a fresh interpreter as a worker that yields the frames of a function.

    `function` is `module:function`; the function is called with `data` and a `Line`.
    """
    if sys.platform != "linux" or not FORKS:
        not_granted.add("namespaces")
    process = subprocess.Popen(
        [sys.executable, "-B", "-c", "from harness.sandbox.child import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=scratch,
        env=child_environment(scratch),
        start_new_session=True,
    )
    request, receive, listen = (
        _detach(stream) for stream in (process.stdin, process.stdout, process.stderr)
    )
    with contextlib.suppress(OSError):  # it has already ended; its exit status shows why
        order = InterpreterOrder(function, data, hiding_own_folders(limits))
        encoded = msgspec.msgpack.encode(order)
        write_all(request, len(encoded).to_bytes(8, "big") + encoded)
    worker = Worker(SpawnedProcess(process), request, receive, listen)
    worker.wait_until_ready()
    return worker


def _detach(stream: IO[bytes] | None) -> int:
    """Return a descriptor of the pipe that stays open when the stream is closed."""
    assert stream is not None
    with stream:
        return os.dup(stream.fileno())
