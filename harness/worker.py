"""The child's side of the road: load an engine, run the probes in order, send what was seen.

A job goes in, frames come out: one that says whether the engine could be loaded, then one a run.
It runs in a forked child, or as `python -m harness.worker` where there is no fork.
"""

from __future__ import annotations

import builtins
import faulthandler
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from harness.diagnostics import DIAGNOSTICS
from harness.engine import Dialect
from harness.loader import MARKER, load
from harness.patch import Site
from harness.probe import Probe
from harness.run import Failure, Measured, Run
from harness.trial import Library, Trial, observe
from harness.words import Loss


class Job(msgspec.Struct, frozen=True):
    """All that a child needs to know."""

    dialect: Dialect
    root: str
    sources: dict[str, str]
    """The engine's files; empty for a library that is imported as it is installed."""
    sites: tuple[Site, ...]
    probes: tuple[Probe, ...]
    items: tuple[tuple[int, Loss | None], ...]
    """What to run, in order: a probe's index and a loss."""
    measure: tuple[str, ...]
    """The diagnostics that may run the engine again."""


class Loaded(msgspec.Struct, frozen=True):
    """The first frame: the engine's import is over, well or with a failure."""

    failure: Failure | None = None


def work(job: Job) -> Iterator[Loaded | Run]:
    """Do the job, frame by frame."""
    executed: set[int] = set()

    def mark(site: int) -> bool:
        executed.add(site)
        return True

    setattr(builtins, MARKER, mark)
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
    yield Loaded()
    at_import = set(executed)
    for index, loss in job.items:
        executed.clear()
        yield _run(library, job.probes[index], loss, job.measure, executed, at_import)


def _run(
    library: Library,
    probe: Probe,
    loss: Loss | None,
    wanted: tuple[str, ...],
    executed: set[int],
    at_import: set[int],
) -> Run:
    try:
        trial = Trial(library, probe)
    except BaseException as error:
        failure = Failure("reading the probe", type(error).__name__, str(error))
        return Run(probe.name, loss, failure=failure)
    run = observe(trial, loss)
    reached = sorted(executed | at_import)
    measured = {} if run.failure else _measure(trial, run, wanted)
    return msgspec.structs.replace(run, reached=reached, measured=measured)


def _measure(trial: Trial, run: Run, wanted: tuple[str, ...]) -> dict[str, Measured]:
    measured = {}
    for diagnostic in DIAGNOSTICS:
        applies = diagnostic.name in wanted and trial.probe.kind in diagnostic.kinds
        if diagnostic.measure and applies and trial.probe.kind == "gradient":
            try:
                measured[diagnostic.name] = diagnostic.measure(trial, run)
            except BaseException as error:
                problem = f"measuring ended in {type(error).__name__}: {error}"
                measured[diagnostic.name] = Measured(problem=problem)
    return measured


Frame = Loaded | Run


def encode_frame(frame: Frame) -> bytes:
    """A frame as it travels: four bytes of length (big-endian), a kind, and the record."""
    body = (b"L" if isinstance(frame, Loaded) else b"R") + msgspec.msgpack.encode(frame)
    return len(body).to_bytes(4, "big") + body


def serve(job: Job, pipe: int) -> None:
    """Do the job and write the frames to the file descriptor `pipe`."""
    write_all = _writer(pipe)
    for frame in work(job):
        write_all(encode_frame(frame))


def _writer(pipe: int) -> Callable[[bytes], None]:
    def write_all(data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(pipe, view) :]

    return write_all


def main() -> None:
    """Read a job from standard input and serve it on standard output."""
    job = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Job)
    pipe = os.dup(1)
    quiet()
    serve(job, pipe)
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
