"""What the child does with a task: load an engine and run probes, explore it, or run a program.

Each reply is computed when the main process requests it. The child is confined: see
`harness.sandbox.child`.
"""

from __future__ import annotations

import contextlib
import importlib
import random
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextvars import copy_context
from functools import cache, partial
from pathlib import Path
from types import ModuleType

import msgspec
import numpy as np
from numpy.random import mtrand

from harness.core.run import (
    Failure,
    Measured,
    Measurement,
    Run,
    failure_of,
    is_repeatable,
    message_of,
)
from harness.core.vocabulary import Loss, Phase
from harness.engines.calling import origin_of
from harness.engines.library import Library
from harness.engines.loading import CallRecorder, LoadedEngine, compile_files, load
from harness.engines.survey import Survey
from harness.pages.probe import Probe
from harness.runs.coverage import called_functions
from harness.runs.first_use import prepare_library
from harness.runs.judging import judge, verdict_of_error
from harness.runs.other_files import OtherFiles
from harness.runs.program import execute
from harness.runs.protocol import (
    SEED,
    EngineLoaded,
    Job,
    Program,
    ProgramEnd,
    Reply,
    Task,
    decode_task,
    encode_reply,
)
from harness.runs.recorder import Recorder
from harness.runs.state import EngineState
from harness.runs.trial import ReplyCache, Trial, compile_at, observe
from harness.sandbox.child import Line, Work, import_function
from harness.sandbox.forks import compute_in_forks
from harness.sandbox.frames import LARGEST_PAYLOAD, Frame
from harness.sandbox.host import Prepare

OUR_ENGINE: dict[str, LoadedEngine] = {}
"""In a host: our own engine, loaded once, by module name."""


def open_host(*libraries: str) -> Prepare:
    """In a host: import the libraries, and return the function that prepares tasks for children.

    Besides installed libraries, only the unpatched files of our own engine are executed here;
    everything else is only compiled.
    """
    _ignore_warnings()
    for library in libraries:
        with contextlib.suppress(BaseException):  # the child reports it
            importlib.import_module(library)
    return _prepare


def _prepare(data: bytes) -> Work:
    task = decode_task(data)
    if isinstance(task, Job):
        _prepare_job(task)
    elif isinstance(task, Survey):
        importlib.import_module(_EXPLORER)  # once in the host, rather than in each child
    return partial(run_task, task, forks=True)


_EXPLORER = "harness.engines.survey.explorer"


def _prepare_job(job: Job) -> None:
    _import_measurements(job)
    for probe in job.probes:
        if "testing" in probe.source:
            importlib.import_module("numpy.testing")  # importing it takes longer than a whole suite
        with contextlib.suppress(*_COMPILING):
            compile_at(probe.source, probe.path, probe.line)
    with contextlib.suppress(*_COMPILING):
        compile_files(Path(job.root), job.sources, job.sites, job.hooks)
    module = job.dialect.module
    if not job.sources and module in sys.modules:
        with contextlib.suppress(BaseException):  # the child reports it
            prepare_library(module, job.probes)
    if job.base and module not in OUR_ENGINE:
        _seed_everything()
        with contextlib.suppress(BaseException):  # the child reports it
            OUR_ENGINE[module] = LoadedEngine(module, Path(job.root), job.base)


_COMPILING = SyntaxError, ValueError, RecursionError, MemoryError
"""Exceptions that compilation may raise; the child reports them."""


def run_encoded_task(data: bytes, line: Line) -> Iterator[Frame | bytes]:
    """Like `run_task`, for a task that was sent to a fresh interpreter."""
    return run_task(decode_task(data), line, forks=False)


def run_task(task: Task, line: Line, *, forks: bool) -> Iterator[Frame | bytes]:
    """Yield the frames that answer a task; what a program prints is sent as it runs.

    With `forks`, the runs of a job are computed in forks of this process.
    """
    _ignore_warnings()
    if isinstance(task, Program):
        yield encode_or_fail(execute(task, lambda printed: line.send(encode_reply(printed))))
    elif isinstance(task, Survey):
        from harness.engines.survey.explorer import survey  # only a few tasks need it

        files = OtherFiles(Path(task.root), task.sources)
        files.watch()
        for reply in survey(task):
            yield encode_or_fail(msgspec.structs.replace(reply, other_files=files.opened))
    else:
        yield from run_job(task, line, forks=forks)


def _ignore_warnings() -> None:
    warnings.simplefilter("ignore")
    np.seterr(all="warn")


def encode_or_fail(reply: Reply) -> Frame:
    """Return the frame of a reply, or of a failure if it cannot be encoded or is too large."""
    try:
        frame = encode_reply(reply)
    except (UnicodeError, msgspec.MsgspecError, TypeError, MemoryError) as error:
        return encode_reply(_replacement(reply, failure_of(Phase.SENDING, error)))
    if len(frame.payload) > LARGEST_PAYLOAD:
        size = f"{len(frame.payload)} bytes, and at most {LARGEST_PAYLOAD} can be sent"
        return encode_reply(_replacement(reply, Failure(Phase.SENDING, "ResultTooLarge", size)))
    return frame


def _replacement(reply: Reply, failure: Failure) -> Reply:
    if isinstance(reply, Run):
        return Run(reply.probe, reply.loss, failure=failure)
    return ProgramEnd(failure)


# ----- A job -----


def run_job(job: Job, line: Line, *, forks: bool) -> Iterator[Frame | bytes]:
    """Load the engine, and run the steps in order; each run starts when it is requested.

    A run that needs the engine as it was loaded is computed in another fork of this process;
    without forks, the process ends, and the caller starts a new one. See `_Session.step`.
    """
    session = _Session(job)
    failure = session.load()
    several = len(job.steps) > 1
    forks = forks and several and threading.active_count() == 1  # a fork has no other threads
    yield encode_reply(EngineLoaded(failure, forks))
    if failure:
        return
    if forks:
        count = len(job.steps)
        yield from compute_in_forks(count, session.step, session.may_go_on, line, job.limits)
        return
    for position in range(len(job.steps)):
        frame, last = session.step(position)
        yield frame
        if last:
            return


class _Session:
    """The engine of a job, and what all of its runs share."""

    def __init__(self, job: Job) -> None:
        _import_measurements(job)  # before any of the engine's code runs
        self.job, self.recorder = job, Recorder()
        self.recorder.install(job.hooks)
        self.steps = job.steps
        self.coverage = CallRecorder({str(Path(job.root) / file) for file in job.sources})
        self.called: list[str] | None = None
        """The functions that the import called."""
        self.reached: set[int] = set()
        """The sites that the import executed."""
        self.swapped = False
        self.cached_probe, self.cache = -1, ReplyCache()
        self.files = OtherFiles(Path(job.root), job.sources)
        self.state: EngineState | None = None
        """The engine as it was loaded; None for an installed library, which is not patched."""

    def load(self) -> Failure | None:
        """Import the engine, and record the state of the random number generator."""
        job = self.job
        if job.sources:
            self.files.watch()
        if job.covered:
            self.coverage.start()
        try:
            self.library = self._open_library()
        except BaseException as error:
            return failure_of(Phase.IMPORT, error, origin=origin_of(error))
        if job.covered:
            self.called = called_functions(self.coverage.stop())
        self.reached = set(self.recorder.executed)
        if job.sources:
            self.state = EngineState(job.dialect.module.partition(".")[0])
        self.generator = mtrand.get_bit_generator()
        self.start = self.generator.state
        return None

    def step(self, position: int) -> tuple[Frame, bool]:
        """Return the frame of a step, and whether the next one needs another process.

        It needs one after a failure, after a change of the engine's variables, and if one of the
        two probes could affect the other. In an installed library, which is not patched, failures
        and changes do not matter.
        """
        index, loss, traced = self.steps[position]
        mtrand.set_bit_generator(self.generator)
        self.generator.state = self.start
        random.seed(SEED)
        self.recorder.clear()
        if index != self.cached_probe:
            self.cached_probe, self.cache = index, ReplyCache()
        run = _run_covered if self.job.covered else _trace if traced else _run
        if self.state:
            self.state.begin_run()
        # Many settings are context variables, such as NumPy's error handling.
        result = copy_context().run(run, self, self.job.probes[index], loss)
        if self.swapped or self.files.opened:
            result = msgspec.structs.replace(
                result, swapped=self.swapped, other_files=self.files.opened
            )
        stays = self.may_go_on(position) and (
            self.state is None or (result.failure is None and self.state.is_unchanged())
        )
        return encode_or_fail(result), not stays

    def may_go_on(self, position: int) -> bool:
        """Whether the next step may run in the same process as the one at this position."""
        if position + 1 == len(self.steps):
            return True
        return self.job.may_share(self.steps[position][0], self.steps[position + 1][0])

    def _open_library(self) -> Library:
        job = self.job
        module = self._swapped_engine()
        if module is None:
            _seed_everything()
            module = _import_engine(job)
        if job.dialect.kind is None:
            return Library(job.dialect, module)
        from harness.engines.adapter import open_library  # for foreign engines only

        return open_library(job.dialect, module)

    def _swapped_engine(self) -> ModuleType | None:
        """Return the host's loaded engine with the patch swapped in; None if that is impossible."""
        job = self.job
        loaded = OUR_ENGINE.get(job.dialect.module)
        if loaded is None or job.covered or loaded.sources != job.base:
            return None
        codes = compile_files(Path(job.root), job.sources, job.sites, job.hooks)
        if not loaded.swap(codes):
            return None
        self.swapped = job.sources != job.base
        return loaded.module


def _seed_everything() -> None:
    mtrand.set_bit_generator(np.random.PCG64(SEED))
    random.seed(SEED)


def _import_engine(job: Job) -> ModuleType:
    if not job.sources:
        library = importlib.import_module(job.dialect.module)
        prepare_library(job.dialect.module, job.probes)
        return library
    return load(job.dialect.module, Path(job.root), job.sources, job.sites, job.hooks)


def _run_covered(session: _Session, probe: Probe, loss: Loss | None) -> Run:
    """Return a run that holds only the functions that the import and the probe call."""
    trial = Trial(session.library, probe)
    session.coverage.start()
    observe(trial, loss)
    called = called_functions(session.coverage.stop())
    if session.called is None or called is None:
        return Run(probe.name, loss)
    return Run(probe.name, loss, called=[*session.called, *called])


def _trace(session: _Session, probe: Probe, loss: Loss | None) -> Run:
    """Return a run that holds only the backward walk, if the engine can record it."""
    try:
        trial = Trial(session.library, probe)
    except BaseException:
        return Run(probe.name, loss)  # the run itself records the failure
    return Run(probe.name, loss, trace=observe(trial, loss, traced=True).trace)


def _run(session: _Session, probe: Probe, loss: Loss | None) -> Run:
    job, recorder = session.job, session.recorder
    try:
        trial = Trial(session.library, probe, session.cache)
    except BaseException as error:
        return Run(probe.name, loss, failure=failure_of(Phase.PROBE, error))
    run = observe(trial, loss)
    recorder.paused = True  # what a diagnostic runs is not part of the probe
    reached = sorted(recorder.executed | session.reached)
    if job.sites and not (reached or run.failure or job.complete):
        return Run(probe.name, loss)  # equal to the unpatched engine's run, which is recorded
    run = msgspec.structs.replace(run, reached=reached, trail=dict(recorder.trail))
    if run.failure:
        return run
    return msgspec.structs.replace(run, measured=_measure(job, trial, run))


def _measure(job: Job, trial: Trial, run: Run) -> dict[str, Measured]:
    """Return the results of all measurements that apply to the probe, by name."""
    measurements = [one for one in job.measure if trial.probe.kind in one.kinds]
    run = trial.measurable(run) if measurements else run
    results: dict[str, Measured] = {}
    for one in measurements:
        if one.text:
            results[one.name] = _judge(one, trial, run)
    ours = [one for one in measurements if not one.text]
    for function in dict.fromkeys(item.function for item in ours):  # several may share it
        try:
            results[function] = _import_function(function)(trial, run)
        except BaseException as error:  # what a broken engine raises here is an observation too
            text = f"{type(error).__name__}: {message_of(error)}"
            own = not _comes_from_engine(error)
            results[function] = Measured(failure=text, ours=own, repeatable=is_repeatable(error))
    return {one.name: results[one.name if one.text else one.function] for one in measurements}


def _judge(one: Measurement, trial: Trial, run: Run) -> Measured:
    """Return the verdict of a diagnostic that a catalogue brings."""
    # It may know neither whether the engine is patched, nor where.
    run = msgspec.structs.replace(run, reached=[], trail={}, seconds=0.0)
    try:
        return judge(one, trial, run)
    except BaseException as error:
        if not _comes_from_engine(error):
            return verdict_of_error(one, error)
        text = f"{type(error).__name__}: {message_of(error)}"
        return Measured(failure=text, repeatable=is_repeatable(error))


_CALLERS = Trial.call.__code__.co_filename, str(Path(Library.call.__code__.co_filename).parent)
"""The code through which every measurement calls the engine."""


def _comes_from_engine(error: BaseException) -> bool:
    """Whether the exception was raised while the engine or the probe ran."""
    return any(
        frame.f_code.co_filename.startswith(_CALLERS)
        for frame, _ in traceback.walk_tb(error.__traceback__)
    )


def _import_measurements(job: Job) -> None:
    """Import the functions that are ours; the text of any other is only executed to judge a run."""
    for measurement in job.measure:
        if not measurement.text:
            _import_function(measurement.function)


_import_function = cache(import_function)  # an engine cannot replace what was imported before it
