"""A process that opens a grader once, and grades submissions one after another for its parent.

The parent may have threads, which a process that forks must not have, and it may be killed at any
moment: then this process ends the fork that grades, and itself.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import closing, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import msgspec

from harness.core.errors import BreaklabError
from harness.core.message import Message, as_parts, from_parts, message
from harness.grade.cohort.grader import GraderOpening, differing
from harness.grade.cohort.pool import MOST_ATTEMPTS, Abandoned, GradingTask, LocalPool
from harness.sandbox.signals import requests_raised

_MAIN = "from harness.grade.cohort.server import main; main()"

_START_UP = 300.0
"""Seconds within which a grader must be open."""


class GradingOrder(msgspec.Struct, frozen=True):
    """How to grade."""

    opening: GraderOpening
    settings: dict[str, str]
    """Those of the grader in the process that collects the results."""
    seconds: float
    """The time limit for one submission."""


class Refusal(msgspec.Struct, frozen=True, tag=True):
    """Why the grader cannot be opened here."""

    problem: Message
    remedy: Message

    def encode(self) -> bytes:
        """Return the refusal as bytes, which `decode_reply` reads."""
        return msgspec.msgpack.encode(self, enc_hook=as_parts)


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The grader is open."""


Expected = TypeVar("Expected")


def decode_reply(data: bytes, expected: type[Expected]) -> Refusal | Expected:
    """Return a refusal or what was expected instead. Raises ValueError for other bytes."""
    return msgspec.msgpack.decode(data, type=Refusal | expected, dec_hook=from_parts)


class ServerLost(Exception):
    """The server has ended, or does not answer."""


# ----- The parent's side -----


class GradingServer:
    """A server, seen from the process that starts it."""

    def __init__(self, order: GradingOrder) -> None:
        """Start it. Raises ServerLost; `refusal` is set if it cannot grade."""
        ours, theirs = socket.socketpair()
        path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _MAIN],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            )
        self._pipe = Connection(ours.detach())
        self._seconds = MOST_ATTEMPTS * (order.seconds + 10)
        reply = decode_reply(self._exchange(msgspec.msgpack.encode(order), _START_UP), Ready)
        self.refusal = reply if isinstance(reply, Refusal) else None

    def grade(self, task: bytes) -> bytes:
        """Return the encoded outcome of an encoded task. Raises ServerLost."""
        return self._exchange(task, self._seconds)

    def close(self) -> None:
        """End the server and the fork that grades."""
        self._pipe.close()  # it notices
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()

    def _exchange(self, data: bytes, seconds: float) -> bytes:
        try:
            self._pipe.send_bytes(data)
            if self._pipe.poll(seconds):
                return self._pipe.recv_bytes()
        except (EOFError, OSError):
            pass
        self.close()
        raise ServerLost


# ----- The server's side -----


def main() -> None:
    """Serve the process at the other end of the standard input, until it closes it."""
    pipe = Connection(os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    with requests_raised(), suppress(EOFError, OSError, Abandoned):
        order = msgspec.msgpack.decode(pipe.recv_bytes(), type=GradingOrder)
        opened = _open(order, pipe)
        if isinstance(opened, Refusal):
            pipe.send_bytes(opened.encode())
            return
        with closing(opened) as pool:
            pipe.send_bytes(msgspec.msgpack.encode(Ready()))
            while True:
                task = msgspec.msgpack.decode(pipe.recv_bytes(), type=GradingTask)
                ((_, outcome),) = pool.run([task])
                pipe.send_bytes(msgspec.msgpack.encode(outcome))


def _open(order: GradingOrder, pipe: Connection) -> LocalPool | Refusal:
    try:
        grader = order.opening.open()
    except BreaklabError as error:
        return Refusal(*error.sentences)
    if different := differing(order.settings, grader.settings):
        problem = message(
            "a worker grades under other conditions: {conditions}", conditions=", ".join(different)
        )
        remedy = message("install the same versions of breaklab and its libraries there")
        return Refusal(problem, remedy)
    grader.prepare()
    return LocalPool(grader.grade, 1, order.seconds, lifeline=pipe)
