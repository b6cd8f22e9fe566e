"""Run tasks in child processes, so that the engine under test cannot harm this one.

An engine that ends its process ends only its own run: the remaining probes are run in a new child.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from harness.core.run import Failure, Run
from harness.core.vocabulary import visible
from harness.engines.loader import compile_ahead
from harness.engines.survey import ATTEMPT_MARKER, STEPS, Survey, SurveyStep
from harness.runs.child import run_encoded_task, run_task
from harness.runs.program import Output, Program, ProgramEnd
from harness.runs.protocol import (
    Job,
    Loaded,
    Reply,
    RestartNeeded,
    Task,
    decode_reply,
    encode_task,
)
from harness.sandbox.frames import Frame
from harness.sandbox.limits import Limits
from harness.sandbox.scratch import scratch_folder
from harness.sandbox.worker import NoFrame, Worker, fork_worker, spawn_worker

MOST_PRINTED = 8_000
"""Bytes; a program that prints more is stopped."""

Result = TypeVar("Result")

_TIME_LIMITS = {"TimeLimit", "ProcessorTimeLimit"}


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


def run_isolated(job: Job, *, fork: bool | None = None) -> list[Run]:
    """Return a run for each of the job's steps, in order, even if the engine fails.

    Raises EngineDoesNotLoad if the engine cannot be imported.
    """
    runs: list[Run] = []
    while len(runs) < len(job.steps):
        rest = job.only(range(len(runs), len(job.steps)))
        runs += _with_worker(rest, fork, partial(_collect_runs, rest))
    return runs


def run_program(
    program: Program, limits: Limits | None = None, *, fork: bool | None = None
) -> Printout:
    """Return what the program prints to standard output, even if it fails."""
    if limits:
        program = msgspec.structs.replace(program, limits=limits)
    return _with_worker(program, fork, partial(_collect_output, program.limits))


def run_survey(task: Survey, *, fork: bool | None = None) -> list[SurveyStep]:
    """Return the results of a survey's steps; the last has a failure if not all succeeded."""
    return _with_worker(task, fork, partial(_collect_steps, task))


# ----- A worker for a task -----


def _with_worker(task: Task, fork: bool | None, collect: Callable[[Worker], Result]) -> Result:
    """Start a worker for the task, return the result of `collect` on it, and end it."""
    with scratch_folder() as scratch:
        worker = start_worker(task, scratch, fork)
        try:
            return collect(worker)
        finally:
            worker.end()


def start_worker(task: Task, scratch: Path, fork: bool | None) -> Worker:
    """Start a worker for a task; it is forked where possible, unless `fork` says otherwise.

    An installed library, which is never patched, is trusted and not confined.
    """
    confined = isinstance(task, Program) or bool(task.sources)
    if not (_can_fork(task) if fork is None else fork):
        name = f"{run_encoded_task.__module__}:{run_encoded_task.__name__}"
        return spawn_worker(name, encode_task(task), scratch, task.limits, confined=confined)
    if isinstance(task, Job):
        compile_ahead(Path(task.root), task.sources, task.sites, task.hooks)
    return fork_worker(partial(run_task, task), scratch, task.limits, confined=confined)


def _can_fork(task: Task) -> bool:
    """Whether no library that the task imports is loaded here, where it may have started threads.

    They would be missing in the child, and PyTorch would wait for them forever.
    """
    if isinstance(task, Program):
        libraries = task.needs
    else:
        libraries = () if task.sources else (task.dialect.module,)
    return hasattr(os, "fork") and not any(name in sys.modules for name in libraries)


# ----- A worker's replies -----


def _collect_runs(job: Job, worker: Worker) -> list[Run]:
    """Return the child's runs; the last one is a failure if the child has ended early.

    A child that ends abnormally after its first run may do so because of an earlier one, unless it
    is a time limit. Then the run is left out, to be repeated in a new child.
    """
    answer = _request(worker, job.limits)
    if not isinstance(answer, Loaded) or answer.failure:
        reported = answer.failure if isinstance(answer, Loaded) else None
        raise EngineDoesNotLoad(reported or _failure_of(worker, answer, job.limits, "the import"))
    runs: list[Run] = []
    for index, loss, _ in job.steps:
        probe, answer = job.probes[index].name, _request(worker, job.limits)
        if runs and isinstance(answer, RestartNeeded):
            return runs
        if not (isinstance(answer, Run) and (answer.probe, answer.loss) == (probe, loss)):
            failure = _failure_of(worker, answer, job.limits, "the run")
            if not runs or failure.type in _TIME_LIMITS:
                runs.append(Run(probe, loss, failure=failure))
            return runs
        runs.append(answer)
    return runs


def _collect_output(limits: Limits, worker: Worker) -> Printout:
    """Return what arrives until the program ends, or exceeds its limit of time or of text."""
    printed = b""
    end = time.monotonic() + limits.seconds
    answer = _request(worker, limits)
    while isinstance(answer, Output):
        printed += answer.data
        if len(printed) > MOST_PRINTED:
            message = f"stopped after {MOST_PRINTED} bytes of text"
            return _printout(printed, Failure("the program", "OutputLimit", message))
        answer = _decode(worker.receive(max(0.0, end - time.monotonic())))
    if isinstance(answer, ProgramEnd):
        return _printout(printed, answer.failure)
    return _printout(printed, _failure_of(worker, answer, limits, "the program"))


def _printout(printed: bytes, failure: Failure | None) -> Printout:
    return Printout(visible(printed[:MOST_PRINTED].decode(errors="backslashreplace")), failure)


def _collect_steps(task: Survey, worker: Worker) -> list[SurveyStep]:
    """Return the result of each step, up to the first one that fails."""
    results: list[SurveyStep] = []
    for step in STEPS:
        answer = _request(worker, task.limits)
        if not isinstance(answer, SurveyStep):
            dialect = results[-1].dialect if results else task.dialect
            failure = _failure_of(worker, answer, task.limits, step)
            attempt = worker.last_output.rpartition(ATTEMPT_MARKER)[2].strip()
            tried = [f"{attempt}: never came to an end"] if attempt else []
            answer = SurveyStep(step, dialect, task.name, failure, tried)
        results.append(answer)
        if answer.failure:
            break
    return results


Answer = Reply | NoFrame


def _request(worker: Worker, limits: Limits) -> Answer:
    return _decode(worker.request(limits.seconds))


def _decode(frame: Frame | NoFrame) -> Answer:
    if isinstance(frame, NoFrame):
        return frame
    return decode_reply(frame) or NoFrame.REFUSED


def _failure_of(worker: Worker, answer: Answer, limits: Limits, phase: str) -> Failure:
    """Return an unexpected reply as a failure; may end the worker."""
    if answer is NoFrame.LATE:
        message = f"not done after {limits.seconds:g} seconds"
        return Failure(phase, "TimeLimit", message, repeatable=False)
    status = worker.end()
    if answer is not NoFrame.ENDED:
        message = "the child sent something that is not a result, or not the requested one"
        return Failure(phase, "ForgedResult", message, repeatable=False)
    if status == -getattr(signal, "SIGXCPU", 0):
        message = f"more than {limits.cpu_seconds} seconds of processor time"
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
