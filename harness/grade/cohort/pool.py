"""Grading in forks of this process: a fork for each submission, several at a time.

A fork that ends or hangs costs its own submission some time, and nothing of the others.
"""

from __future__ import annotations

import resource
import signal
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait

import msgspec

from harness.core.errors import BreaklabError, PageError, UsageError
from harness.core.vocabulary import shortened
from harness.grade.cohort.grader import Grade, grade_files, rejection
from harness.grade.suite import SuiteReport
from harness.sandbox.hosts import close_hosts
from harness.sandbox.scratch import remove_abandoned
from harness.sandbox.signals import terminate
from harness.sandbox.supervision import die_with_parent

MOST_ATTEMPTS = 3
"""How often a submission is tried if the process that grades it ends without a result."""

MOST_OF_A_REASON = 500
"""Characters."""

_PATIENCE = 3.0
"""Seconds that a process has to end, with all that it has started, before it is killed."""


class Abandoned(Exception):
    """Nobody waits for the results any more."""


class Task(msgspec.Struct, frozen=True):
    """A submission to grade."""

    name: str
    digest: str
    files: Mapping[str, bytes]
    attempts: int = 0
    """How often that has failed."""

    def again(self) -> Task:
        """Return the task for another attempt."""
        return msgspec.structs.replace(self, attempts=self.attempts + 1)


class Outcome(msgspec.Struct, frozen=True, tag=True):
    """What came of a task."""

    report: SuiteReport
    processor_seconds: float = 0.0
    final: bool = True
    """False if the grader failed, and not the submission."""


class LocalPool:
    """Forks that grade, at most `processes` at a time and each for at most `seconds`.

    Parameters
    ----------
    lifeline : Connection, optional
        `run` raises Abandoned once something arrives there, or once its other end is closed.
    """

    def __init__(
        self,
        grade: Grade,
        processes: int,
        seconds: float,
        lifeline: Connection | None = None,
    ) -> None:
        self._grade, self._processes, self._seconds = grade, processes, seconds
        self._lifeline = lifeline

    def run(self, tasks: Iterable[Task]) -> Generator[tuple[Task, Outcome], None, None]:
        """Yield each task with its outcome, in any order. Close the iterator to end all forks."""
        waiting, again = iter(tasks), deque[Task]()
        running: dict[Connection, _Fork] = {}
        try:
            while True:
                while len(running) < self._processes and (task := _next(again, waiting)):
                    fork = _Fork(self._grade, task, self._seconds)
                    running[fork.pipe] = fork
                if not running:
                    return
                for fork in self._wait(running):
                    del running[fork.pipe]
                    outcome = fork.end()
                    if outcome.final or fork.task.attempts + 1 >= MOST_ATTEMPTS:
                        yield fork.task, outcome
                    else:
                        again.append(fork.task.again())
        finally:
            for fork in running.values():
                fork.terminate()
            for fork in running.values():
                fork.kill()
            remove_abandoned()  # a process that is killed leaves its scratch folder

    def _wait(self, running: Mapping[Connection, _Fork]) -> list[_Fork]:
        """Return the forks that have a result, have ended, or have had their time."""
        first = min(fork.deadline for fork in running.values())
        others = () if self._lifeline is None else (self._lifeline,)
        ready = set(wait([*running, *others], max(0.0, first - time.monotonic())))
        if self._lifeline in ready:
            raise Abandoned
        now = time.monotonic()
        return [fork for pipe, fork in running.items() if pipe in ready or fork.deadline <= now]


def _next(again: deque[Task], waiting: Iterator[Task]) -> Task | None:
    """Return the next task: a new one first, so that failures do not delay the others."""
    task = next(waiting, None)
    return again.popleft() if task is None and again else task


class _Fork:
    """A process that grades one submission."""

    def __init__(self, grade: Grade, task: Task, seconds: float) -> None:
        self.task, self._seconds = task, seconds
        self.deadline = time.monotonic() + seconds
        context = get_context("fork")
        self.pipe, pipe = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(grade, task, pipe))
        self._process.start()
        pipe.close()

    def end(self) -> Outcome:
        """Return what the process has found; end it if it has not ended."""
        late = not self.pipe.poll() and self._process.is_alive()
        outcome = None if late else self._received()
        if outcome:
            self._process.join(_PATIENCE)
        code = self.kill()
        if late:
            reason = f"grading it takes more than {self._seconds:g} s"
            return Outcome(rejection(self.task.name, reason))
        reason = f"the process that grades it ended with the status {code}"
        return outcome or Outcome(rejection(self.task.name, reason), final=False)

    def terminate(self) -> None:
        """Ask the process to end what it has started, and itself."""
        self._process.terminate()

    def kill(self) -> int | None:
        """End the process, after a moment in which it may end what it has started."""
        for end in (self._process.terminate, self._process.kill):
            if self._process.is_alive():
                end()
                self._process.join(_PATIENCE)
        self.pipe.close()
        return self._process.exitcode

    def _received(self) -> Outcome | None:
        try:
            return msgspec.msgpack.decode(self.pipe.recv_bytes(), type=Outcome)
        except (EOFError, OSError, ValueError):
            return None


def _work(grade: Grade, task: Task, pipe: Connection) -> None:
    """Grade a submission, and send the outcome; end cleanly on SIGTERM."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal
    signal.signal(signal.SIGTERM, terminate)
    try:
        report, final = _graded(grade, task)
    finally:
        close_hosts()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = sum(usage.ru_utime + usage.ru_stime for usage in used)
    pipe.send_bytes(msgspec.msgpack.encode(Outcome(report, round(seconds, 3), final)))


def _graded(grade: Grade, task: Task) -> tuple[SuiteReport, bool]:
    """Return the report, and whether it is final."""
    try:
        return grade_files(grade, task.name, task.files), True
    except (PageError, UsageError) as error:
        return rejection(task.name, error.problem), True
    except Exception as error:
        problem = error.problem if isinstance(error, BreaklabError) else repr(error)
        reason = f"the grader failed: {shortened(problem, MOST_OF_A_REASON)}"
        return rejection(task.name, reason), False
