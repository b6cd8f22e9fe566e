"""The child's side of the road: load an engine, run the probes in order, send what was seen.

A job goes in, frames come out: one that says whether the engine could be loaded, then one a run.
Or a whole program goes in, and what it prints comes out.
It runs in a forked child, or in a fresh interpreter that calls `main` where there is no fork.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import random
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import NoReturn, TypeVar

import msgspec
import numpy as np
from numpy.random import mtrand

from harness.core.run import Failure, Measured, Measurement, Run, message_of
from harness.core.vocabulary import Loss
from harness.engines.adapter import open_library
from harness.engines.engine import Dialect
from harness.engines.library import Library
from harness.engines.loader import load
from harness.engines.survey import STEPS, Survey, SurveyStep, survey
from harness.pages.probe import Probe
from harness.patch import Site
from harness.patch.reach import HOOKS, MARKER, Hooks
from harness.runs.coverage import Coverage
from harness.runs.inputs import SEED
from harness.runs.program import Ended, Printed, Program, execute
from harness.runs.recorder import Recorder
from harness.runs.reset import Process
from harness.runs.trial import Answers, Trial, observe
from harness.sandbox.confinement import Limits, allow_time, confine, die_with_parent


class Job(msgspec.Struct, frozen=True, tag="job"):
    """All that a child needs to know to run probes."""

    dialect: Dialect
    root: str
    sources: dict[str, str]
    """The engine's files; empty for a library that is imported as it is installed."""
    sites: tuple[Site, ...]
    probes: tuple[Probe, ...]
    items: tuple[tuple[int, Loss | None], ...]
    """What to run, in order: a probe's index and a loss."""
    measure: tuple[Measurement, ...] = ()
    """What may run the engine again."""
    traced: bool = False
    """Record the backward walks."""
    trailed: bool = True
    """Record what the sites evaluate to, and not only that they are executed."""
    covered: bool = False
    """Record which of the engine's functions are called."""
    limits: Limits = Limits()


class Loaded(msgspec.Struct, frozen=True):
    """The first frame: the engine's import is over, well or with a failure."""

    failure: Failure | None = None


class Spent(msgspec.Struct, frozen=True):
    """In place of a run: one before it changed this process for good, and a fresh one is needed."""


def work(job: Job, scratch: Path) -> Iterator[Loaded | Run | Spent]:
    """Do the job, frame by frame; each is begun when it is asked for.

    All that `scratch` holds is removed after every run: never name a folder that somebody needs.
    """
    for each in job.measure:
        _function(each.function)  # imported before any of the engine's code runs
    recorder = Recorder()
    recorder.install(hooks_of(job))
    coverage = Coverage({str(Path(job.root) / file) for file in job.sources})
    if job.covered:
        coverage.start()
    mtrand.set_bit_generator(np.random.PCG64(SEED))
    random.seed(SEED)
    try:
        module = (
            load(job.dialect.module, Path(job.root), job.sources, job.sites, hooks_of(job))
            if job.sources
            else importlib.import_module(job.dialect.module)
        )
        library = open_library(job.dialect, module)
    except BaseException as error:
        yield Loaded(Failure("the import", type(error).__name__, message_of(error)))
        return
    called = coverage.stop() if job.covered else None
    yield Loaded()
    at_import = set(recorder.executed)
    process = Process(job.dialect.module.partition(".")[0], scratch) if job.sources else None
    generator = mtrand.get_bit_generator()
    start = generator.state
    about, known = -1, Answers()
    for index, loss in job.items:
        mtrand.set_bit_generator(generator)
        generator.state = start
        random.seed(SEED)
        recorder.clear()
        probe = job.probes[index]
        if index != about:
            about, known = index, Answers()
        if job.covered:
            does = partial(_cover, library, probe, loss, coverage, called)
        else:
            does = partial(_run, job, library, probe, loss, known, recorder, at_import)
        run, restored = process.isolate(does) if process else (does(), True)
        yield run
        if not restored:
            yield Spent()
            return


def hooks_of(job: Job) -> Hooks:
    """What the engine's code calls at its sites."""
    return HOOKS if job.trailed else MARKER


def _cover(
    library: Library,
    probe: Probe,
    loss: Loss | None,
    coverage: Coverage,
    at_import: list[str] | None,
) -> Run:
    """Only the functions that are called: the import's, and those of the run."""
    trial = Trial(library, probe)
    coverage.start()
    observe(trial, loss)
    called = coverage.stop()
    if at_import is None or called is None:
        return Run(probe.name, loss)
    return Run(probe.name, loss, called=[*at_import, *called])


def _run(
    job: Job,
    library: Library,
    probe: Probe,
    loss: Loss | None,
    known: Answers,
    recorder: Recorder,
    at_import: set[int],
) -> Run:
    try:
        trial = Trial(library, probe, known)
    except BaseException as error:
        failure = Failure("reading the probe", type(error).__name__, message_of(error))
        return Run(probe.name, loss, failure=failure)
    run = observe(trial, loss, traced=job.traced)
    recorder.paused = True  # what diagnostics run is not the probe
    reached = sorted(recorder.executed | at_import)
    if job.sites and not reached and not run.failure:
        return Run(probe.name, loss)  # the unpatched engine's own run, which is known
    run = msgspec.structs.replace(run, reached=reached, trail=dict(recorder.trail))
    if run.failure:
        return run
    return msgspec.structs.replace(run, measured=_measure(job, trial, run))


Measure = Callable[[Trial, Run], Measured]


def _measure(job: Job, trial: Trial, run: Run) -> dict[str, Measured]:
    wanted = [each for each in job.measure if trial.probe.kind in each.kinds]
    measured: dict[str, Measured] = {}
    for function in dict.fromkeys(each.function for each in wanted):  # several may want the same
        try:
            measured[function] = _function(function)(trial, run)
        except BaseException as error:  # what a broken engine raises here is an observation too
            measured[function] = Measured(failure=f"{type(error).__name__}: {message_of(error)}")
    return {each.name: measured[each.function] for each in wanted}


@cache
def _function(name: str) -> Measure:
    """The function that a name such as `harness.diagnostics.gradcheck:measure` stands for."""
    module, _, attribute = name.partition(":")
    function: Measure = getattr(importlib.import_module(module), attribute)
    return function


Record = TypeVar("Record", bound=msgspec.Struct)

Task = Job | Program | Survey
"""What a child is there for."""

Frame = Loaded | Run | Spent | Printed | Ended | SurveyStep

KINDS: dict[bytes, type[Frame]] = {
    b"L": Loaded,
    b"R": Run,
    b"S": Spent,
    b"P": Printed,
    b"E": Ended,
    b"V": SurveyStep,
}
"""The byte that a frame starts with."""

_BYTES = {kind: byte for byte, kind in KINDS.items()}

VERSION = 3
"""Of the form in which frames travel."""

LARGEST_FRAME = 64 * 1024 * 1024
"""Bytes; who announces more is not believed."""

TICKET = 8
"""Bytes of a ticket: the random number with which the parent asks for a frame, and which the frame
has to carry. Whoever writes frames that were not asked for cannot know it."""


def encode_frame(frame: Frame, ticket: bytes) -> bytes:
    """A frame as it travels: four bytes of length (big-endian), version, kind, ticket, record."""
    body = bytes([VERSION]) + _BYTES[type(frame)] + ticket + msgspec.msgpack.encode(frame)
    return len(body).to_bytes(4, "big") + body


def decode_frame(body: bytes, ticket: bytes) -> Frame | None:
    """What a frame's body says; None where it is none, or not the one that was asked for."""
    head, kind, said = body[:1], body[1:2], body[2 : 2 + TICKET]
    if head != bytes([VERSION]) or kind not in KINDS or said != ticket:
        return None
    return decode_record(body[2 + TICKET :], KINDS[kind])


def decode_record(data: bytes, kind: type[Record]) -> Record | None:
    """The record that the bytes are; None where they are none."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (ValueError, RecursionError):
        return None


def serve(task: Task, scratch: Path, asked: int, pipe: int) -> None:
    """Do the task: read tickets from the file descriptor `asked`, write frames to `pipe`."""
    # A forked child has its parent's settings, which may make exceptions of NumPy's warnings.
    warnings.simplefilter("ignore")
    np.seterr(all="warn")
    if isinstance(task, Program):
        ticket = _take(asked, task.limits)
        _send(pipe, execute(task, lambda printed: _send(pipe, printed, ticket)), ticket)
        return
    frames: Iterator[Frame]
    if isinstance(task, Survey):
        frames, count = survey(task), len(STEPS)
    else:
        frames, count = work(task, scratch), 1 + len(task.items)
    for _ in range(count):
        ticket = _take(asked, task.limits)
        frame = next(frames, None)
        if frame is None:
            return
        _send(pipe, frame, ticket)


def _take(asked: int, limits: Limits) -> bytes:
    """Wait for a ticket; from then on, time counts."""
    ticket = _read_exactly(asked, TICKET)
    allow_time(limits)
    return ticket


def _send(pipe: int, frame: Frame, ticket: bytes) -> None:
    try:
        body = encode_frame(frame, ticket)
    except (UnicodeError, msgspec.MsgspecError, TypeError, MemoryError) as error:
        body = encode_frame(_instead(frame, type(error).__name__, message_of(error)), ticket)
    if len(body) > LARGEST_FRAME:
        said = f"{len(body)} bytes, and {LARGEST_FRAME} can be looked at"
        body = encode_frame(_instead(frame, "ResultTooLarge", said), ticket)
    view = memoryview(body)
    while view:
        view = view[os.write(pipe, view) :]


def _instead(frame: Frame, kind: str, message: str) -> Frame:
    """What is sent where a frame cannot be."""
    failure = Failure("sending what was seen", kind, message)
    return (
        Run(frame.probe, frame.loss, failure=failure) if isinstance(frame, Run) else Ended(failure)
    )


def main() -> None:
    """Read a task from standard input, and be the child that does it."""
    length = int.from_bytes(_read_exactly(0, 8), "big")
    task: Task = msgspec.msgpack.decode(_read_exactly(0, length), type=Task)
    os.write(1, bytes(4))  # an empty frame: here we are, and time may count
    be_the_child(task, Path.cwd(), os.dup(0), os.dup(1), os.dup(2))


def _read_exactly(descriptor: int, count: int) -> bytes:
    """That many bytes; the process ends where there are fewer: nobody wants to know any more."""
    data = b""
    while len(data) < count:
        more = os.read(descriptor, count - len(data))
        if not more:
            os._exit(0)
        data += more
    return data


def be_the_child(task: Task, scratch: Path, asked: int, pipe: int, printed: int) -> NoReturn:
    """Do the task, confined, and end the process.

    What the engine prints goes to the file descriptor `printed`; it reads nothing.
    """
    status = 1
    try:
        _default_signals()
        die_with_parent()
        _close_others({asked, pipe, printed})
        _redirect(printed)
        _scrub(scratch)
        if isinstance(task, Program) or task.sources:
            confine(scratch, task.limits)
        else:  # a library that is installed, and trusted; it may need more than we know
            os.chdir(scratch)
        serve(task, scratch, asked, pipe)
        status = 0
    except BaseException as error:  # only an engine that meddles with our own code gets here
        with contextlib.suppress(BaseException):
            os.write(2, f"{type(error).__name__}: {message_of(error)}".encode())
    os._exit(status)


def _default_signals() -> None:
    """What our own command line does on a signal is not for the child to do."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _close_others(kept: set[int]) -> None:
    """Whatever else the parent has open is not the child's."""
    before = 2
    for descriptor in sorted(kept):
        os.closerange(before + 1, descriptor)
        before = descriptor
    os.closerange(before + 1, os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else 256)


def _redirect(printed: int) -> None:
    """Nothing that a broken engine prints reaches the terminal."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for stream, target in enumerate((nothing, printed, printed)):
        os.dup2(target, stream)
    os.close(nothing)
    os.close(printed)
    # A forked child has its parent's Python streams, which may lead elsewhere than to 0, 1 and 2.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.stderr = sys.stdout
    faulthandler.disable()


def _scrub(scratch: Path) -> None:
    """An environment that says nothing about the user, and leads nowhere but to the scratch."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT}
    os.environ.clear()
    os.environ |= kept | dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(scratch))
    tempfile.tempdir = None  # a forked child has what its parent has found out


KEPT = {"PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "SYSTEMROOT"} | {
    f"{library}_NUM_THREADS" for library in ("OMP", "OPENBLAS", "MKL")
}
"""The variables that a child may know."""
