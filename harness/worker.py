"""The child's side of the road: load an engine, run the probes in order, send what was seen.

A job goes in, frames come out: one that says whether the engine could be loaded, then one a run.
Or a whole program goes in, and what it prints comes out.
It runs in a forked child, or as `python -m harness.worker` where there is no fork.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
from numpy.random import mtrand

from harness.coverage import Coverage
from harness.diagnostics import DIAGNOSTICS
from harness.engine import Dialect
from harness.leaves import SEED
from harness.loader import load
from harness.patch import Site
from harness.probe import Probe
from harness.program import Ended, Printed, Program, execute
from harness.run import Failure, Measured, Run
from harness.subgradient import NEARBY, sample_nearby
from harness.trail import Recorder
from harness.trial import Library, Trial, observe
from harness.words import Loss


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
    measure: tuple[str, ...] = ()
    """The diagnostics that may run the engine again."""
    answer_key: bool = False
    """This is the unpatched engine: also sample what the outcome needs to know of kinks."""
    traced: bool = False
    """Record the backward walks."""
    covered: bool = False
    """Record which of the engine's functions are called."""


class Loaded(msgspec.Struct, frozen=True):
    """The first frame: the engine's import is over, well or with a failure."""

    failure: Failure | None = None


def work(job: Job) -> Iterator[Loaded | Run]:
    """Do the job, frame by frame."""
    recorder = Recorder()
    recorder.install()
    coverage = Coverage({str(Path(job.root) / file) for file in job.sources})
    if job.covered:
        coverage.start()
    mtrand.set_bit_generator(np.random.PCG64(SEED))
    try:
        module = (
            load(job.dialect.module, Path(job.root), job.sources, job.sites)
            if job.sources
            else importlib.import_module(job.dialect.module)
        )
        library = Library(job.dialect, module)
    except BaseException as error:
        yield Loaded(Failure("the import", type(error).__name__, str(error)))
        return
    called = coverage.stop() if job.covered else None
    yield Loaded()
    at_import = set(recorder.executed)
    start = mtrand.get_bit_generator().state
    for index, loss in job.items:
        mtrand.get_bit_generator().state = start
        recorder.clear()
        probe = job.probes[index]
        if job.covered:
            yield _cover(library, probe, loss, coverage, called)
        else:
            yield _run(job, library, probe, loss, recorder, at_import)


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
    recorder: Recorder,
    at_import: set[int],
) -> Run:
    try:
        trial = Trial(library, probe)
    except BaseException as error:
        failure = Failure("reading the probe", type(error).__name__, str(error))
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


def _measure(job: Job, trial: Trial, run: Run) -> dict[str, Measured]:
    measures = {
        each.name: each.measure
        for each in DIAGNOSTICS
        if each.measure and each.name in job.measure and trial.probe.kind in each.kinds
    }
    if job.answer_key and trial.probe.kind == "gradient":
        measures[NEARBY] = sample_nearby
    measured = {}
    for name, measure in measures.items():
        try:
            measured[name] = measure(trial, run)
        except BaseException as error:  # what a broken engine raises here is an observation too
            measured[name] = Measured(failure=f"{type(error).__name__}: {error}")
    return measured


Task = Job | Program
"""What a child is there for."""

Frame = Loaded | Run | Printed | Ended

KINDS: dict[bytes, type[Frame]] = {b"L": Loaded, b"R": Run, b"P": Printed, b"E": Ended}
"""The byte that a frame starts with."""

_BYTES = {kind: byte for byte, kind in KINDS.items()}


def encode_frame(frame: Frame) -> bytes:
    """A frame as it travels: four bytes of length (big-endian), a kind, and the record."""
    body = _BYTES[type(frame)] + msgspec.msgpack.encode(frame)
    return len(body).to_bytes(4, "big") + body


def serve(task: Task, pipe: int) -> None:
    """Do the task and write the frames to the file descriptor `pipe`."""
    # A forked child has its parent's settings, which may make exceptions of NumPy's warnings.
    warnings.simplefilter("ignore")
    np.seterr(all="warn")
    send = _sender(pipe)
    if isinstance(task, Program):
        send(execute(task, send))
    else:
        for frame in work(task):
            send(frame)


def _sender(pipe: int) -> Callable[[Frame], None]:
    def send(frame: Frame) -> None:
        view = memoryview(encode_frame(frame))
        while view:
            view = view[os.write(pipe, view) :]

    return send


def main() -> None:
    """Read a task from standard input and serve it on standard output."""
    task: Task = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Task)
    pipe = os.dup(1)
    quiet()
    serve(task, pipe)
    os._exit(0)


def quiet() -> None:
    """Nothing that a broken engine prints reaches the terminal; it reads nothing either."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    # A forked child has its parent's Python streams, which may lead elsewhere than to 0, 1 and 2.
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stdout
    faulthandler.disable()


if __name__ == "__main__":
    main()
