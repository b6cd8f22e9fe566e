"""Grading on a Dask cluster.

A worker of the cluster only supervises: it starts a server, a process that opens a grader once, and
grades submissions one after another in a fork whose children are confined. So no submission can end
a worker, and a worker that ends loses only what it was grading, which is graded elsewhere. The
server is needed since a worker has threads, which a process that forks must not have, and may be
killed at any moment: then the server ends the fork that grades, and itself.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Generator, Iterable
from contextlib import closing, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import msgspec

from harness.core.errors import BreaklabError, EnvironmentProblem
from harness.core.message import Message, as_parts, from_parts, message
from harness.grade.cohort.grader import Grader, GraderOpening, rejection
from harness.grade.cohort.pool import (
    MOST_ATTEMPTS,
    Abandoned,
    GradingOutcome,
    GradingTask,
    LocalPool,
    next_task,
)
from harness.grade.cohort.results import differing
from harness.grade.cohort.run import OpenPool
from harness.sandbox.signals import requests_raised

_MAIN = "from harness.grade.cohort.dask_pool import main; main()"

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


# ----- The server, seen from the worker -----


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


# ----- In the server -----


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


# ----- The pool -----

_PATIENCE = 30.0
"""Seconds within which the scheduler must answer and a first worker must be available."""

_POLL = 1.0
"""Seconds between two checks that the scheduler is still running."""


def dask_pool(address: str, seconds: float) -> OpenPool:
    """Return a function that opens a pool on the cluster of the scheduler at `address`."""

    def open_pool(opening: GraderOpening, grader: Grader) -> DaskPool:
        return DaskPool(address, GradingOrder(opening, dict(grader.settings), seconds))

    return open_pool


class DaskPool:
    """A client of a Dask cluster. Raises EnvironmentProblem if it cannot be reached."""

    def __init__(self, address: str, order: GradingOrder) -> None:
        self._address, self._order = address, msgspec.msgpack.encode(order)
        self._client = _connect(address)
        self._finished: SimpleQueue[Any] = SimpleQueue()
        self._running: dict[Any, GradingTask] = {}

    def run(
        self, tasks: Iterable[GradingTask]
    ) -> Generator[tuple[GradingTask, GradingOutcome], None, None]:
        """Yield each task with its outcome, in any order.

        Raises EnvironmentProblem if the scheduler is lost, or a worker cannot grade.
        """
        waiting, again = iter(tasks), deque[GradingTask]()
        while True:
            while len(self._running) < self._window() and (task := next_task(waiting, again)):
                self._submit(task)
            if not self._running:
                return
            future = self._next_finished()
            if future is None:
                continue
            task = self._running.pop(future)
            outcome = self._outcome(future)
            future.release()  # or it is computed again when the worker that holds it ends
            if outcome is None and task.attempts + 1 < MOST_ATTEMPTS:
                again.append(task.again())
            else:
                yield task, outcome or _failed(task.name, "the workers that grade it end")

    def close(self) -> None:
        """Abandon what is still running, and leave the cluster."""
        if self._is_running():
            self._client.cancel(list(self._running), force=True)
        with suppress(Exception):  # without a scheduler, it may complain
            self._client.close(timeout=_POLL)

    def _submit(self, task: GradingTask) -> None:
        data = msgspec.msgpack.encode(task)
        try:
            future = self._client.submit(supervise, self._order, data, pure=False)
        except Exception:
            if self._is_running():
                raise
            raise self._lost() from None
        future.add_done_callback(self._finished.put)
        self._running[future] = task

    def _window(self) -> int:
        """Return how many tasks to give the scheduler, so that none waits behind a slow one."""
        try:
            threads: int = sum(self._client.nthreads().values())
        except OSError:
            raise self._lost() from None
        return max(1, threads)

    def _next_finished(self) -> Any | None:
        """Return the next future that is done, or None after a moment."""
        try:
            future = self._finished.get(timeout=_POLL)
        except Empty:
            future = None
        if not self._is_running():
            raise self._lost()
        return future

    def _lost(self) -> EnvironmentProblem:
        return EnvironmentProblem(
            message("the Dask scheduler at {address} no longer answers", address=self._address),
            "start it again, and repeat the command: it continues from here",
        )

    def _is_running(self) -> bool:
        return bool(self._client.status == "running")

    def _outcome(self, future: Any) -> GradingOutcome | None:
        """Return a worker's result; None if the worker has ended.

        Raises EnvironmentProblem if it cannot grade.
        """
        try:
            data: bytes = future.result(timeout=_PATIENCE)
        except Exception:  # such as KilledWorker
            return None
        reply = decode_reply(data, GradingOutcome)
        if isinstance(reply, Refusal):
            raise EnvironmentProblem(reply.problem, reply.remedy)
        return reply


def _connect(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise EnvironmentProblem(
            "--dask needs distributed, which is not installed",
            "pip install 'breaklab[dask]'",
        ) from None
    for name in ("distributed", "distributed.client"):  # errors that matter are raised
        logging.getLogger(name).setLevel(logging.CRITICAL)
    opened: SimpleQueue[Any] = SimpleQueue()

    def open_client() -> None:
        try:
            opened.put(Client(address, timeout=_PATIENCE))
        except Exception as error:
            opened.put(error)

    # The client waits without end for a server that speaks another protocol, such as HTTP.
    threading.Thread(target=open_client, daemon=True).start()
    try:
        client = opened.get(timeout=2 * _PATIENCE)
    except Empty:
        client = TimeoutError("it does not answer as one")
    if isinstance(client, Exception):
        if not isinstance(client, (OSError, ValueError)):
            raise client
        problem = message(
            "there is no Dask scheduler at {address}: {error}", address=address, error=client
        )
        remedy = "check the address, such as tcp://192.0.2.1:8786"
        raise EnvironmentProblem(problem, remedy) from None
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except TimeoutError:
        client.close(timeout=_POLL)
        remedy = "start one: dask worker ADDRESS"
        problem = message("the cluster at {address} has no worker", address=address)
        raise EnvironmentProblem(problem, remedy) from None
    return client


def _failed(name: str, reason: str) -> GradingOutcome:
    return GradingOutcome(rejection(name, reason), final=False)


# ----- On a worker -----

_idle: defaultdict[bytes, list[GradingServer]] = defaultdict(list)
"""The servers of this worker that wait for a task, by their orders."""

_lock = threading.Lock()


def supervise(order: bytes, task: bytes) -> bytes:
    """On a worker, let a server grade a task, and return the encoded outcome or refusal."""
    for _ in range(MOST_ATTEMPTS):
        try:
            server = _take(order)
            if server.refusal:
                server.close()
                return server.refusal.encode()
            reply = server.grade(task)
        except ServerLost:
            continue
        with _lock:
            _idle[order].append(server)
        return reply
    name = msgspec.msgpack.decode(task, type=GradingTask).name
    return msgspec.msgpack.encode(_failed(name, "the process that grades it ended"))


def _take(order: bytes) -> GradingServer:
    """Return an idle server or a new one; close those of other cohorts."""
    with _lock:
        server = _idle[order].pop() if _idle[order] else None
        others = [other for key in list(_idle) if key != order for other in _idle.pop(key)]
    for other in others:
        other.close()
    return server or GradingServer(msgspec.msgpack.decode(order, type=GradingOrder))
