"""Cached runs: only what has not been run before is run, on an engine or on an oracle.

A run depends on the engine's source, the probe, the loss, what was measured, Python, the libraries,
and our own observing code. All of them are part of its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec

import msgspec

from harness.core.message import Message, message
from harness.core.run import Run
from harness.core.vocabulary import Loss, Skipped
from harness.engines.engine import Dialect
from harness.pages.probe import Probe, ProbeKind
from harness.runs.cache import RUN_ROOMS, Cache, ResultKind, installed_packages, key_of
from harness.runs.isolated import EngineDoesNotLoad, run_isolated
from harness.runs.protocol import SEED, Job, JobStep, Recorded
from harness.sandbox.limits import Limits

RUNS: ResultKind[Run] = ResultKind("run", Run, RUN_ROOMS)


def run_cached(job: Job, cache: Cache) -> list[Run]:
    """Return the run of each of the job's steps, in order.

    Raises EngineDoesNotLoad if something had to be run and the engine did not load.
    """
    return cache.fetch(RUNS, keys_of(job), lambda missing: run_isolated(job.only(missing)))


def keys_of(job: Job) -> list[bytes]:
    """Return the key of each of the job's steps, in order."""
    packages = installed_packages() if job.sources and not job.base else []
    facts = job.dialect, sorted(job.sources.items()), job.sites, job.limits, packages
    engine = key_of(RUNS, facts)
    # Called functions are recorded with the file that they are in.
    root = job.root if job.records is Recorded.CALLS else ""
    recorded = key_of(RUNS, (job.records, job.measure, root))
    return [
        key_of(RUNS, (engine, job.probes[index].identity, loss, SEED, recorded))
        for index, loss in job.steps
    ]


def run_in_parallel(jobs: Sequence[Job], cache: Cache, processes: int) -> None:
    """Run what is not cached, each job in a process of its own, so that `run_cached` finds them.

    The runs of an engine that does not load are left out: `run_cached` says why there are none.
    """
    from harness.sandbox.parallel import map_in_parallel  # only for many jobs

    missing = [job.only(positions) for job in jobs if (positions := _missing_steps(job, cache))]
    with closing(map_in_parallel(_run_encoded, missing, min(processes, len(missing)))) as results:
        for job, data in zip(missing, results, strict=True):
            runs = msgspec.msgpack.decode(data, type=list[Run])
            cache.put(RUNS, dict(zip(keys_of(job), runs, strict=bool(runs))))


def _missing_steps(job: Job, cache: Cache) -> list[int]:
    """Return the positions of the steps whose runs are not cached."""
    keys = keys_of(job)
    cached = cache.get(RUNS, keys)
    return [position for position, key in enumerate(keys) if key not in cached]


def _run_encoded(job: Job) -> bytes:
    """Return the encoded runs of a job; none if its engine does not load."""
    try:
        return msgspec.msgpack.encode(run_isolated(job))
    except EngineDoesNotLoad:
        return msgspec.msgpack.encode([])


# ----- Oracles: independent libraries -----
#
# They run in a child process like any engine, unpatched. If the cache has all of their runs, the
# library is not even imported.

ProbeAndLoss = tuple[Probe, Loss | None]


@dataclass(frozen=True)
class Independent:
    """An independent library, treated as an engine that is never patched."""

    dialect: Dialect
    install: str
    kinds: tuple[ProbeKind, ...]
    """The kinds of probes that it can run."""


TORCH = Independent(
    Dialect(
        module="torch",
        leaf="tensor(data, requires_grad=True)",
        value="t.detach().numpy()",
        gradient="None if t.grad is None else t.grad.numpy()",
        backward="t.backward(from_numpy(cotangent.copy()))",
    ),
    install="pip install 'breaklab[torch]'",
    kinds=("gradient", "steps"),
)

HIPS = Independent(
    Dialect(
        module="harness.runs.hips",
        distribution="autograd",
        backward_again="t.backward(cotangent, retain_graph=True)",
    ),
    install="pip install 'breaklab[autograd]'",
    kinds=("gradient",),
)

LIBRARIES = {"torch": TORCH, "autograd": HIPS}

IMPORT_LIMIT = Limits(seconds=120.0, cpu_seconds=120)
"""The first import of PyTorch from a slow disk takes long."""


def why_missing(name: str) -> Message | None:
    """Return why the library cannot run at all, with the remedy; None if it can."""
    library = LIBRARIES[name]
    if find_spec(library.dialect.distribution or library.dialect.module):
        return None
    return message("{library} is not installed: {remedy}", library=name, remedy=library.install)


def run_on_library(
    name: str, pairs: Sequence[ProbeAndLoss], store: Cache
) -> dict[tuple[str, Loss | None], Run | Skipped]:
    """Return the library's run of each pair, by probe name and loss, or why there is none."""
    fit = _fitting(name, pairs)
    if not fit:
        return {}
    if reason := why_missing(name):
        return {(probe.name, loss): Skipped(reason) for probe, loss in fit}
    runs: Sequence[Run | Skipped]
    try:
        runs = run_cached(job_on_library(name, pairs), store)
    except EngineDoesNotLoad as error:
        reason = message(
            "{library} cannot be imported: {failure}", library=name, failure=error.failure.sentence
        )
        runs = [Skipped(reason, repeatable=False)] * len(fit)
    return {(probe.name, loss): run for (probe, loss), run in zip(fit, runs, strict=True)}


def job_on_library(name: str, pairs: Sequence[ProbeAndLoss]) -> Job:
    """Return the job that runs, on the library, those of the pairs that it can run."""
    fit = _fitting(name, pairs)
    probes = {probe.identity: probe for probe, _ in fit}
    place = {identity: index for index, identity in enumerate(probes)}
    steps = tuple(JobStep(place[probe.identity], loss) for probe, loss in fit)
    dialect = LIBRARIES[name].dialect
    return Job(dialect, "", {}, (), tuple(probes.values()), steps, limits=IMPORT_LIMIT)


def _fitting(name: str, pairs: Sequence[ProbeAndLoss]) -> list[ProbeAndLoss]:
    return [(probe, loss) for probe, loss in pairs if probe.kind in LIBRARIES[name].kinds]
