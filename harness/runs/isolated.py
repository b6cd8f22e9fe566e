"""Run tasks in child processes, so that the engine under test cannot harm this process.

An engine that ends its process ends only its own run: the remaining probes are run in a new child.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from harness.core.message import visible
from harness.core.run import Failure, Run
from harness.core.vocabulary import Phase
from harness.engines.survey import ATTEMPT_MARKER, STEPS, Survey, SurveyStep
from harness.runs.protocol import (
    ChildReply,
    ChildTask,
    EngineLoaded,
    Job,
    Program,
    ProgramEnd,
    ProgramOutput,
    Recorded,
    decode_reply,
    encode_task,
    is_possible,
)
from harness.sandbox.frames import Frame
from harness.sandbox.hosts import Opening
from harness.sandbox.limits import FORKS, Limits, scratch_folder
from harness.sandbox.view import not_whole
from harness.sandbox.worker import NoFrame, Worker, hosted_worker, spawn_worker

MOST_PRINTED = 8_000
"""Bytes; a program that prints more is stopped."""

MOST_LATE = {"TimeLimit": 2, "ProcessorTimeLimit": 10}
"""After this many runs that reach a limit, the remaining runs of the job are skipped."""

HOSTED = sys.platform == "linux" and FORKS
"""Whether a child is the fork of a host, rather than a fresh interpreter."""

Result = TypeVar("Result")

RunProgress = Callable[[str, str], None]
"""A function that is called with the library and the probe of each run that has ended, and with
the library and an empty text before it is loaded."""

_progress: ContextVar[RunProgress | None] = ContextVar("progress", default=None)


@contextlib.contextmanager
def watching(progress: RunProgress) -> Iterator[None]:
    """Call `progress` for each library that is loaded, and each run that ends, in this context."""
    token = _progress.set(progress)
    try:
        yield
    finally:
        _progress.reset(token)


@dataclass(frozen=True)
class Printout:
    """What a program printed until it ended or was stopped."""

    text: str
    failure: Failure | None


class EngineDoesNotLoad(Exception):
    """The import of the engine raised, hung or ended the process; `failure` says how."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))


def run_isolated(job: Job) -> list[Run]:
    """Return a run for each of the job's steps, in order, even if the engine fails.

    Probes that belong to a page or a user run last, so that they cannot affect the runs of shared
    probes. A probe of a foreign engine whose forward pass fails is run with one loss only, since
    the loss comes later. Raises EngineDoesNotLoad if the engine cannot be imported.
    """
    if not job.alone:
        return _run_steps(job)
    firsts, others = _first_losses(job)
    runs = dict(zip(firsts, _run_steps(job.only(firsts)), strict=True))
    # Before the loss was computed, so that they would with any loss.
    early = Phase.LEAVES, Phase.FORWARD
    failed = {
        job.steps[at].probe: run
        for at, run in runs.items()
        if run.failure and run.failure.phase in early
    }
    rest = [at for at in others if job.steps[at].probe not in failed]
    runs |= zip(rest, _run_steps(job.only(rest)), strict=True) if rest else ()
    for at in others:
        index, loss = job.steps[at]
        if index in failed:
            runs[at] = msgspec.structs.replace(failed[index], loss=loss, seconds=0.0)
    return [runs[at] for at in range(len(job.steps))]


def _first_losses(job: Job) -> tuple[list[int], list[int]]:
    """Return the positions of each probe's first step, and those of its other losses."""
    first = {step.probe: at for at, step in reversed(list(enumerate(job.steps)))}
    positions = sorted(first.values())
    return positions, [at for at in range(len(job.steps)) if at not in set(positions)]


def _run_steps(job: Job) -> list[Run]:
    runs: dict[int, Run] = {}
    late: Counter[str] = Counter()
    steps = job.steps
    pending = sorted(range(len(steps)), key=lambda at: not job.probes[steps[at].probe].shared)
    while pending and not _reached_limit(late):
        rest = job.only(pending)
        done, failure = _with_worker(rest, partial(_collect_runs, rest))
        late.update([failure.type] if failure else [])
        runs |= zip(pending, done, strict=False)
        del pending[: len(done)]
    runs |= {position: _not_waited_for(job, position, late) for position in pending}
    return [runs[position] for position in range(len(steps))]


def _reached_limit(late: Counter[str]) -> str | None:
    return next((kind for kind, most in MOST_LATE.items() if late[kind] >= most), None)


def _not_waited_for(job: Job, position: int, late: Counter[str]) -> Run:
    """Return the run of a skipped step, which would probably take too long as well."""
    index, loss = job.steps[position]
    kind = _reached_limit(late) or ""
    reason = f"not run, since {late[kind]} other runs did not end in time"
    failure = Failure(Phase.RUN, kind, reason, repeatable=False)
    return Run(job.probes[index].name, loss, failure=failure)


def run_program(program: Program) -> Printout:
    """Return what the program prints to standard output, even if it fails."""
    return _with_worker(program, partial(_collect_output, program.limits))


def run_survey(task: Survey) -> list[SurveyStep]:
    """Return the results of a survey's steps; the last has a failure if not all succeeded."""
    return _with_worker(task, partial(_collect_steps, task))


# ----- A worker for a task -----


def _with_worker(task: ChildTask, collect: Callable[[Worker], Result]) -> Result:
    """Start a worker for the task, return the result of `collect` on it, and end it.

    If the worker's host ends in the meantime, try once more.
    """
    with contextlib.suppress(_WorkerLost):
        return _with_one_worker(task, collect, last=False)
    return _with_one_worker(task, collect, last=True)


def _with_one_worker(task: ChildTask, collect: Callable[[Worker], Result], *, last: bool) -> Result:
    with contextlib.nullcontext() if HOSTED else scratch_folder() as scratch:
        worker = start_worker(task, scratch)
        try:
            return collect(worker)
        finally:
            worker.end()
            if worker.lost and not last:
                raise _WorkerLost


class _WorkerLost(Exception):
    """The host of a worker ended before the worker."""


def start_worker(task: ChildTask, scratch: Path | None = None) -> Worker:
    """Start a worker for a task: in a fork, or in a fresh interpreter in the folder `scratch`."""
    limits = task.limits
    if not isinstance(task, Program) and task.sources:
        limits = replace(limits, visible=engine_paths(Path(task.root), task.sources))
    if scratch:
        name = f"{_CHILD}:run_encoded_task"
        return spawn_worker(name, encode_task(task), scratch, limits)
    forks = len(task.steps) if isinstance(task, Job) else 0
    opening = Opening(f"{_CHILD}:open_host", _libraries(task))
    return hosted_worker(opening, encode_task(task), limits, forks)


def engine_paths(root: Path, sources: Iterable[str], apart: Iterable[Path] = ()) -> tuple[str, ...]:
    """Return what a child must see of an engine with these source files below `root`.

    It is the whole folder, since an engine may read what is beside it. If that is one of `apart`,
    or contains the home folder, for example, it is only the engine's own files and packages.
    """
    root = root.absolute()
    folder = root.resolve()
    parts = [*map(Path, not_whole()), *(path for path in apart if path.resolve() == folder)]
    if not any(path.is_relative_to(folder) for path in parts):
        return (str(root),)
    return tuple(dict.fromkeys(str(root / file.partition("/")[0]) for file in sources))


_CHILD = "harness.runs.child"


def _libraries(task: ChildTask) -> tuple[str, ...]:
    """Return the libraries to import once in the task's host rather than in each child.

    A separate host for them pays off from the second task that needs them.
    """
    if isinstance(task, Program):
        needed = tuple(sorted({"torch", "autograd"} & set(task.needs)))
    else:
        needed = () if task.sources else (task.dialect.module,)
    if needed in _needed_before:
        return needed
    _needed_before.add(needed)
    return ()


_needed_before: set[tuple[str, ...]] = set()


# ----- A worker's replies -----


def _collect_runs(job: Job, worker: Worker) -> tuple[list[Run], Failure | None]:
    """Return the child's runs and, if it ended early, the failure, which the last run may have.

    If a child ends abnormally after its first run, an earlier run may be the cause. So the failed
    run is omitted, and repeated in a new child, unless it reached a time limit. A child that does
    not fork serves only runs that may share a process.
    """
    _report_progress(job)
    answer = _request(worker, job.limits)
    if not isinstance(answer, EngineLoaded) or answer.failure:
        reported = answer.failure if isinstance(answer, EngineLoaded) else None
        failure = reported or failure_of_child(worker, answer, job.limits, Phase.IMPORT)
        raise EngineDoesNotLoad(failure)
    forks, previous = answer.forks, job.steps[0].probe
    may_be_empty = job.records is Recorded.INSIDE or bool(job.sites)
    runs: list[Run] = []
    for index, loss in job.steps:
        if runs and not forks and not job.may_share(previous, index):
            break
        previous = index
        probe, answer = job.probes[index], _request(worker, job.limits)
        if not (
            isinstance(answer, Run)
            and is_possible(answer, probe, loss, job.measure, may_be_empty=may_be_empty)
        ):
            failure = failure_of_child(worker, answer, job.limits, Phase.RUN)
            if not runs or failure.type in MOST_LATE:
                runs.append(Run(probe.name, loss, failure=failure))
            return runs, failure
        runs.append(answer)
        _report_progress(job, probe.name)
    return runs, None


def _report_progress(job: Job, probe: str = "") -> None:
    if progress := _progress.get():
        progress(job.dialect.distribution or job.dialect.module, probe)


def _collect_output(limits: Limits, worker: Worker) -> Printout:
    """Return what arrives until the program ends, or exceeds its limit of time or of text."""
    printed = b""
    end = time.monotonic() + limits.seconds
    answer = _request(worker, limits)
    while isinstance(answer, ProgramOutput):
        printed += answer.data
        if len(printed) > MOST_PRINTED:
            message = f"stopped after {MOST_PRINTED} bytes of text"
            return _printout(printed, Failure(Phase.PROGRAM, "OutputLimit", message))
        answer = _decode(worker.receive(max(0.0, end - time.monotonic())))
    if isinstance(answer, ProgramEnd):
        return _printout(printed, answer.failure)
    return _printout(printed, failure_of_child(worker, answer, limits, Phase.PROGRAM))


def _printout(printed: bytes, failure: Failure | None) -> Printout:
    return Printout(visible(printed[:MOST_PRINTED].decode(errors="backslashreplace")), failure)


def _collect_steps(task: Survey, worker: Worker) -> list[SurveyStep]:
    """Return the result of each step, up to the first one that fails."""
    results: list[SurveyStep] = []
    for step in STEPS:
        answer = _request(worker, task.limits)
        if not isinstance(answer, SurveyStep):
            dialect = results[-1].dialect if results else task.dialect
            failure = failure_of_child(worker, answer, task.limits, step)
            attempt = worker.last_output.rpartition(ATTEMPT_MARKER)[2].strip()
            tried = [f"{attempt}: never came to an end"] if attempt else []
            answer = SurveyStep(step, dialect, task.name, failure, tried)
        results.append(answer)
        if answer.failure:
            break
    return results


Answer = ChildReply | NoFrame


def _request(worker: Worker, limits: Limits) -> Answer:
    return _decode(worker.request(limits.seconds))


def _decode(frame: Frame | NoFrame) -> Answer:
    if isinstance(frame, NoFrame):
        return frame
    return decode_reply(frame) or NoFrame.REFUSED


def failure_of_child(worker: Worker, answer: Answer, limits: Limits, phase: Phase) -> Failure:
    """Return an unexpected reply of a child as a failure; may end the child."""
    if answer is NoFrame.LATE:
        message = f"not done after {limits.seconds:g} seconds"
        return Failure(phase, "TimeLimit", message, repeatable=False)
    status = worker.end()
    if answer is not NoFrame.ENDED:
        message = "the child sent something that is not a result, or not the requested one"
        return Failure(phase, "ForgedResult", message, repeatable=False)
    if status == -getattr(signal, "SIGXCPU", 0):
        message = f"more than {limits.cpu_seconds:g} seconds of processor time"
        return Failure(phase, "ProcessorTimeLimit", message)
    printed = f"; it last printed: {worker.last_output}" if worker.last_output else ""
    if status < 0:
        message = "the process was killed by a signal"
        if status == -getattr(signal, "SIGKILL", 0):
            message += ", as happens when too many processes are started"
        return Failure(phase, _name_of_signal(-status), message + printed, repeatable=False)
    message = f"the process ended with status {status}{printed}"
    return Failure(phase, "ProcessExit", message, repeatable=False)


def _name_of_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"SIG{number}"
