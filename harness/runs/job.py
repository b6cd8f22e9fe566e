"""A job in the child: the engine is loaded once, and each run is made when it is requested.

A host prepares a job for all of its children. After a run, diagnostics measure; those that a
catalogue brings are the last part of a run. The check of such a diagnostic gets the trial and the
run of the engine at hand. Like a test, it raises an alarm by failing an `assert`; it returns how
many numbers it compared, or a text that says why it could not judge the run.
"""

from __future__ import annotations

import contextlib
import importlib
import random
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import cache
from pathlib import Path
from types import ModuleType

import msgspec
import numpy as np
from numpy.random import mtrand

from harness.core.measurement import Measurement
from harness.core.run import Failure, Measured, Run, failure_of, is_repeatable, message_of
from harness.core.vocabulary import Loss, Phase
from harness.engines.calling import origin_of
from harness.engines.library import Library
from harness.engines.loading import CallRecorder, LoadedEngine, compile_files, load
from harness.pages.checks import CHECK
from harness.pages.probe import Probe
from harness.runs.observer import EngineState, OtherFiles, observe
from harness.runs.protocol import (
    COMPARED,
    SEED,
    EngineLoaded,
    Job,
    Recorded,
    encode_or_fail,
    encode_reply,
)
from harness.runs.recorder import Recorder, called_functions
from harness.runs.trial import ReplyCache, Trial, compile_at, line_within
from harness.sandbox.child import Line, compute_in_forks, import_function
from harness.sandbox.frames import Frame

MOST_CALLS = 100_000
"""Recording calls makes them three times as slow, and a run has a limit of processor time."""

_LOADED: dict[str, LoadedEngine] = {}
"""In a host: our own engine, loaded once, by module name."""


def prepare_job(job: Job) -> None:
    """In a host: import and compile what the job needs, for all children of the host."""
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
    if job.base and module not in _LOADED:
        _seed_everything()
        with contextlib.suppress(BaseException):  # the child reports it
            _LOADED[module] = LoadedEngine(module, Path(job.root), job.base)


_COMPILING = SyntaxError, ValueError, RecursionError, MemoryError
"""Exceptions that compilation may raise; the child reports them."""


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
        files = {str(Path(job.root) / file) for file in job.sources}
        self.coverage = CallRecorder(files, MOST_CALLS)
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
        if job.records is Recorded.CALLS:
            self.coverage.start()
        try:
            self.library = self._open_library()
        except BaseException as error:
            return failure_of(Phase.IMPORT, error, origin=origin_of(error))
        if job.records is Recorded.CALLS:
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
        index, loss = self.steps[position]
        mtrand.set_bit_generator(self.generator)
        self.generator.state = self.start
        random.seed(SEED)
        self.recorder.clear()
        if index != self.cached_probe:
            self.cached_probe, self.cache = index, ReplyCache()
        if self.state:
            self.state.begin_run()
        # Many settings are context variables, such as NumPy's error handling.
        result = copy_context().run(_RECORD[self.job.records], self, self.job.probes[index], loss)
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
        loaded = _LOADED.get(job.dialect.module)
        if loaded is None or job.records is Recorded.CALLS or loaded.sources != job.base:
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


def _record_calls(session: _Session, probe: Probe, loss: Loss | None) -> Run:
    session.coverage.start()
    run = _record_results(session, probe, loss)
    called = called_functions(session.coverage.stop())
    if session.called is None or called is None:
        return run
    return msgspec.structs.replace(run, called=[*session.called, *called])


def _record_inside(session: _Session, probe: Probe, loss: Loss | None) -> Run:
    recorder = session.recorder
    try:
        trial = Trial(session.library, probe)
    except BaseException:
        return Run(probe.name, loss)  # the results record the failure
    run = observe(trial, loss, traced=True)
    differs = recorder.executed or session.reached or run.failure
    if not differs:
        return Run(probe.name, loss, trace=run.trace)
    trail, parts = dict(recorder.trail), dict(recorder.parts)
    return Run(probe.name, loss, trace=run.trace, trail=trail, parts=parts)


def _record_results(session: _Session, probe: Probe, loss: Loss | None) -> Run:
    job, recorder = session.job, session.recorder
    try:
        trial = Trial(session.library, probe, session.cache)
    except BaseException as error:
        return Run(probe.name, loss, failure=failure_of(Phase.PROBE, error))
    run = observe(trial, loss)
    recorder.paused = True  # what a diagnostic runs is not part of the probe
    reached = sorted(recorder.executed | session.reached)
    if job.sites and not (reached or run.failure):
        return Run(probe.name, loss)  # equal to the unpatched engine's run, which is recorded
    run = msgspec.structs.replace(run, reached=reached)
    if run.failure:
        return run
    return msgspec.structs.replace(run, measured=_measure(job, trial, run))


_RECORD = {
    Recorded.RESULTS: _record_results,
    Recorded.INSIDE: _record_inside,
    Recorded.CALLS: _record_calls,
}


# ----- Measurements -----


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
        return _verdict(one, trial, run)
    except BaseException as error:
        if not _comes_from_engine(error):
            return _verdict_of_error(one, error)
        text = f"{type(error).__name__}: {message_of(error)}"
        return Measured(failure=text, repeatable=is_repeatable(error))


_MOST_COMPARED = 2**53
"""No larger number is sent: a float would round it."""


def _verdict(measurement: Measurement, trial: Trial, run: Run) -> Measured:
    """Return the verdict on a run. Raises what the engine or the check raises."""
    names: dict[str, object] = {"__name__": measurement.name}
    exec(compile_at(measurement.text, measurement.path, 1), names)  # noqa: S102  it is code
    answer = names[CHECK](trial, run)  # type: ignore[operator]
    if isinstance(answer, str):
        return Measured(problem=str(answer) or "it gives no reason")
    if isinstance(answer, bool) or not hasattr(answer, "__index__"):
        text = f"`check` returned {type(answer).__name__}, not the number of compared entries"
        return Measured(failure=text, ours=True)
    count = int(answer)
    if count < 1:
        return Measured(problem="it compared nothing")
    return Measured(numbers={COMPARED: float(min(count, _MOST_COMPARED))})


def _verdict_of_error(measurement: Measurement, error: BaseException) -> Measured:
    """Return what the check's own code raised: an alarm, or an error with its line."""
    path, text = measurement.path, message_of(error)
    if isinstance(error, AssertionError):
        line = line_within(measurement.text, path, 1, error)
        return Measured(alarm=text or f"it does not hold: {line}")
    walk = traceback.walk_tb(error.__traceback__)
    lines = [number for frame, number in walk if frame.f_code.co_filename == path]
    line_number = lines[-1] if lines else getattr(error, "lineno", None) or 1
    text = f"{type(error).__name__} in line {line_number} of {path}: {text}"
    return Measured(failure=text, ours=True, repeatable=is_repeatable(error))


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


# ----- Libraries -----


def prepare_library(module: str, probes: Sequence[Probe]) -> None:
    """Set up an imported library for running these probes in forks.

    It runs only code of the library and of this module, and leaves the rest of its state alone.
    """
    if module != "torch":
        return
    # The arrays are small, so threads would only wait for each other, and a fork has only one.
    importlib.import_module("torch").set_num_threads(1)
    if any("optim" in probe.source for probe in probes):
        with suppress(Exception):  # the run that makes one reports it, and the others need none
            _make_torch_optimizer()


@cache
def _make_torch_optimizer() -> None:
    """Make PyTorch import its compiler, as it does for its first optimizer; this takes a second.

    Do not run a backward pass here: on a machine with an accelerator, it starts threads.
    """
    torch = importlib.import_module("torch")
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
