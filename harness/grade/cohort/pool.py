"""Grading in forks of this process, each of which grades submissions one after another.

A submission that ends or delays its fork costs the others nothing: the fork is replaced.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait

import msgspec

from harness.core.errors import BreaklabError, PageError, UsageError
from harness.core.message import shortened
from harness.grade.cohort.grader import COPIES, GradeSuite, grade_files, rejection
from harness.grade.suite import SuiteReport
from harness.sandbox.hosts import close_hosts
from harness.sandbox.limits import remove_abandoned
from harness.sandbox.parallel import Server, end_all
from harness.sandbox.signals import terminate

MOST_ATTEMPTS = 3
"""How often a submission is tried if the grading process ends without a result."""

MOST_OF_A_REASON = 500
"""Characters."""


class Abandoned(Exception):
    """Nobody is waiting for the results any more."""


class GradingTask(msgspec.Struct, frozen=True):
    """A submission to grade."""

    name: str
    digest: str
    files: Mapping[str, bytes]
    """By their path below the folder of all submissions."""
    left_out: Sequence[str] = ()
    """What was found in the folder and does not belong to it."""
    attempts: int = 0
    """How often that has failed."""

    def again(self) -> GradingTask:
        """Return the task for another attempt."""
        return msgspec.structs.replace(self, attempts=self.attempts + 1)


class GradingOutcome(msgspec.Struct, frozen=True, tag=True):
    """The outcome of a task."""

    report: SuiteReport
    final: bool = True
    """False if the grader failed, and not the submission."""


class LocalPool:
    """Forks that grade, at most `processes` at a time, and each submission for at most `seconds`.

    Parameters
    ----------
    lifeline : Connection, optional
        `run` raises Abandoned once something arrives there, or once its other end is closed.
    """

    def __init__(
        self,
        grade: GradeSuite,
        processes: int,
        seconds: float,
        lifeline: Connection | None = None,
    ) -> None:
        self._grade, self._processes, self._seconds = grade, processes, seconds
        self._lifeline = lifeline
        self._forks: list[_GradingFork] = []

    def run(
        self, tasks: Iterable[GradingTask]
    ) -> Generator[tuple[GradingTask, GradingOutcome], None, None]:
        """Yield each task with its outcome, in any order."""
        waiting, again = iter(tasks), deque[GradingTask]()
        while True:
            while len(self._busy()) < self._processes and (task := next_task(waiting, again)):
                self._idle().start(task, self._seconds)
            busy = self._busy()
            if not busy:
                return
            for fork in self._wait(busy):
                task, outcome = fork.finish()
                if not fork.is_usable:
                    self._forks.remove(fork)
                if outcome.final or task.attempts + 1 >= MOST_ATTEMPTS:
                    yield task, outcome
                else:
                    again.append(task.again())

    def close(self) -> None:
        """End all forks."""
        end_all([fork.server for fork in self._forks])
        self._forks.clear()
        for parent in (None, COPIES):  # a process that is killed leaves its scratch folders
            remove_abandoned(parent)

    def _busy(self) -> list[_GradingFork]:
        return [fork for fork in self._forks if fork.task]

    def _idle(self) -> _GradingFork:
        """Return a fork without a task, a new one if there is none."""
        for fork in self._forks:
            if not fork.task:
                return fork
        self._forks.append(_GradingFork(self._grade))
        return self._forks[-1]

    def _wait(self, busy: Sequence[_GradingFork]) -> list[_GradingFork]:
        """Return the forks that have an outcome, have ended, or are out of time."""
        pipes = [fork.pipe for fork in busy]
        others = [] if self._lifeline is None else [self._lifeline]
        first = min(fork.deadline for fork in busy)
        ready = set(wait([*pipes, *others], max(0.0, first - time.monotonic())))
        if self._lifeline in ready:
            raise Abandoned
        now = time.monotonic()
        return [fork for fork in busy if fork.pipe in ready or fork.deadline <= now]


def next_task(waiting: Iterator[GradingTask], again: deque[GradingTask]) -> GradingTask | None:
    """Return the next task: a new one first, so that failures do not delay the others."""
    task = next(waiting, None)
    return again.popleft() if task is None and again else task


class _GradingFork:
    """A process that grades."""

    def __init__(self, grade: GradeSuite) -> None:
        self.task: GradingTask | None = None
        """What it is grading."""
        self.deadline = self._seconds = 0.0
        self.is_usable = True
        self.server = Server(partial(_work, grade))
        self.pipe = self.server.connection

    def start(self, task: GradingTask, seconds: float) -> None:
        """Let it grade a submission."""
        self.task, self._seconds = task, seconds
        self.deadline = time.monotonic() + seconds
        with suppress(OSError):  # it has ended; the outcome will say so
            self.pipe.send_bytes(msgspec.msgpack.encode(task))

    def finish(self) -> tuple[GradingTask, GradingOutcome]:
        """Return the task and its outcome; end the process if it is out of time."""
        assert self.task
        task, self.task = self.task, None
        late = not self.pipe.poll() and self.server.poll() is None
        outcome = None if late else self._received()
        if outcome:
            return task, outcome
        self.is_usable = False
        code = os.waitstatus_to_exitcode(self.server.end())
        if late:
            reason = f"grading it takes more than {self._seconds:g} s"
            return task, GradingOutcome(rejection(task.name, reason, reason))
        reason = f"the process that grades it ended with the status {code}"
        return task, GradingOutcome(rejection(task.name, reason), final=False)

    def _received(self) -> GradingOutcome | None:
        try:
            return msgspec.msgpack.decode(self.pipe.recv_bytes(), type=GradingOutcome)
        except (EOFError, OSError, ValueError):
            return None


def _work(grade: GradeSuite, pipe: Connection) -> None:
    """Grade submissions one after another; end cleanly on SIGTERM."""
    signal.signal(signal.SIGTERM, terminate)
    try:
        while True:
            task = msgspec.msgpack.decode(pipe.recv_bytes(), type=GradingTask)
            pipe.send_bytes(msgspec.msgpack.encode(_graded(grade, task)))
    finally:
        close_hosts()


def _graded(grade: GradeSuite, task: GradingTask) -> GradingOutcome:
    try:
        return GradingOutcome(grade_files(grade, task.name, task.files, task.left_out))
    except (PageError, UsageError) as error:
        return GradingOutcome(rejection(task.name, error.problem))
    except Exception as error:
        problem = error.problem if isinstance(error, BreaklabError) else repr(error)
        reason = f"the grader failed: {shortened(problem, MOST_OF_A_REASON)}"
        return GradingOutcome(rejection(task.name, reason), final=False)
