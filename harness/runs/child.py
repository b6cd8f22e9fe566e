"""What the child does with a task: load an engine and run probes, explore it, or run a program.

Each reply is computed when the host requests it. The process is confined: see
`harness.sandbox.child`.
"""

from __future__ import annotations

import importlib
import random
import warnings
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from types import ModuleType

import msgspec
import numpy as np
from numpy.random import mtrand

from harness.core.run import Failure, Measured, Run, failure_of, is_repeatable, message_of
from harness.core.vocabulary import Loss
from harness.engines.library import Library
from harness.engines.loader import load
from harness.engines.survey import Survey
from harness.pages.probe import Probe
from harness.runs.coverage import Coverage
from harness.runs.inputs import SEED
from harness.runs.program import Program, ProgramEnd, execute
from harness.runs.protocol import (
    Job,
    Loaded,
    Reply,
    RestartNeeded,
    Task,
    decode_task,
    encode_reply,
)
from harness.runs.recorder import Recorder
from harness.runs.reset import ProcessState
from harness.runs.trial import ReplyCache, Trial, observe
from harness.sandbox.child import Send, import_function
from harness.sandbox.frames import LARGEST_PAYLOAD, Frame


def run_encoded_task(data: bytes, send: Send) -> Iterator[Frame]:
    """Like `run_task`, for a task that was sent to a fresh interpreter."""
    return run_task(decode_task(data), send)


def run_task(task: Task, send: Send) -> Iterator[Frame]:
    """Yield the frames that answer a task; what a program prints goes to `send` meanwhile."""
    # A forked child inherits settings that may turn NumPy's warnings into exceptions.
    warnings.simplefilter("ignore")
    np.seterr(all="warn")
    if isinstance(task, Program):
        yield encode_or_fail(execute(task, lambda printed: send(encode_reply(printed))))
        return
    if isinstance(task, Survey):
        from harness.engines.survey.explorer import survey  # only a few tasks need it

    for reply in survey(task) if isinstance(task, Survey) else run_job(task):
        yield encode_or_fail(reply)


def encode_or_fail(reply: Reply) -> Frame:
    """Return the frame of a reply, or of a failure if it cannot be encoded or is too large."""
    try:
        frame = encode_reply(reply)
    except (UnicodeError, msgspec.MsgspecError, TypeError, MemoryError) as error:
        return encode_reply(_replacement(reply, failure_of(_SENDING, error)))
    if len(frame.payload) > LARGEST_PAYLOAD:
        size = f"{len(frame.payload)} bytes, and at most {LARGEST_PAYLOAD} can be sent"
        return encode_reply(_replacement(reply, Failure(_SENDING, "ResultTooLarge", size)))
    return frame


_SENDING = "sending the result"


def _replacement(reply: Reply, failure: Failure) -> Reply:
    if isinstance(reply, Run):
        return Run(reply.probe, reply.loss, failure=failure)
    return ProgramEnd(failure)


# ----- A job -----


def run_job(job: Job) -> Iterator[Loaded | Run | RestartNeeded]:
    """Load the engine, and run the items in order; each run starts when it is requested.

    The working directory is emptied after every run.
    """
    session = _Session(job)
    failure = session.load()
    yield Loaded(failure)
    if failure:
        return
    for index, loss, traced in job.steps:
        run, restored = session.run(index, loss, traced)
        yield run
        if not restored:
            yield RestartNeeded()
            return


class _Session:
    """An engine that is being loaded and run, and what all of its runs share."""

    def __init__(self, job: Job) -> None:
        for measurement in job.measure:
            _import_function(measurement.function)  # before any of the engine's code runs
        self.job, self.recorder = job, Recorder()
        self.recorder.install(job.hooks)
        self.coverage = Coverage({str(Path(job.root) / file) for file in job.sources})
        self.called: list[str] | None = None
        """The functions that the import called."""
        self.reached: set[int] = set()
        """The sites that the import executed."""
        self.cached_probe, self.cache = -1, ReplyCache()
        self.process: ProcessState | None = None

    def load(self) -> Failure | None:
        """Import the engine, and note the state to which every run is reset."""
        job = self.job
        if job.covered:
            self.coverage.start()
        mtrand.set_bit_generator(np.random.PCG64(SEED))
        random.seed(SEED)
        try:
            self.library = _open_library(job)
        except BaseException as error:
            return failure_of("the import", error)
        if job.covered:
            self.called = self.coverage.stop()
        self.reached = set(self.recorder.executed)
        if job.sources:
            self.process = ProcessState(job.dialect.module.partition(".")[0], Path.cwd())
        self.generator = mtrand.get_bit_generator()
        self.start = self.generator.state
        return None

    def run(self, index: int, loss: Loss | None, traced: bool) -> tuple[Run, bool]:
        """Return the run of an item, and whether the process could be reset after it."""
        self._seed()
        self.recorder.clear()
        if index != self.cached_probe:
            self.cached_probe, self.cache = index, ReplyCache()
        run = _run_covered if self.job.covered else _trace if traced else _run
        call = partial(run, self, self.job.probes[index], loss)
        return self.process.isolate(call) if self.process else (call(), True)

    def _seed(self) -> None:
        mtrand.set_bit_generator(self.generator)
        self.generator.state = self.start
        random.seed(SEED)


def _open_library(job: Job) -> Library:
    module = _import_engine(job)
    if job.dialect.kind is None:
        return Library(job.dialect, module)
    from harness.engines.adapter.adapters import open_library  # for foreign engines only

    return open_library(job.dialect, module)


def _import_engine(job: Job) -> ModuleType:
    if not job.sources:
        return importlib.import_module(job.dialect.module)
    return load(job.dialect.module, Path(job.root), job.sources, job.sites, job.hooks)


def _run_covered(session: _Session, probe: Probe, loss: Loss | None) -> Run:
    """Return a run that holds only the functions that the import and the probe call."""
    trial = Trial(session.library, probe)
    session.coverage.start()
    observe(trial, loss)
    called = session.coverage.stop()
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
        return Run(probe.name, loss, failure=failure_of("reading the probe", error))
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
    results: dict[str, Measured] = {}
    for function in dict.fromkeys(item.function for item in measurements):  # several may share it
        try:
            results[function] = _import_function(function)(trial, run)
        except BaseException as error:  # what a broken engine raises here is an observation too
            failure = f"{type(error).__name__}: {message_of(error)}"
            results[function] = Measured(failure=failure, repeatable=is_repeatable(error))
    return {one.name: results[one.function] for one in measurements}


_import_function = cache(import_function)  # what is imported first, no engine can replace
