"""Runs through the cache: only what has not been run before is run.

A run depends on the source that was executed, the probe, the loss, what was measured, Python, the
libraries, and our own code that observes. All of that is in its key.
"""

from __future__ import annotations

import msgspec

from harness.core.run import Run
from harness.runs.cache import RUN_ROOMS, Cache, Kind, key_of
from harness.runs.host import run_isolated
from harness.runs.inputs import SEED
from harness.runs.protocol import Job
from harness.sandbox.limits import Limits

RUNS: Kind[Run] = Kind("run", Run, RUN_ROOMS)


def run_cached(job: Job, cache: Cache, limits: Limits | None = None) -> list[Run]:
    """Return the run of each of the job's items, in their order.

    Raises EngineDoesNotLoad if something had to be run and the engine did not load.
    """
    if limits:
        job = msgspec.structs.replace(job, limits=limits)

    def run_missing(positions: list[int]) -> list[Run]:
        items = tuple(job.items[position] for position in positions)
        return run_isolated(msgspec.structs.replace(job, items=items))

    return cache.fetch(RUNS, keys_of(job), run_missing)


def keys_of(job: Job) -> list[bytes]:
    """Return the key of each of the job's items, in their order."""
    common = (
        job.dialect,
        sorted(job.sources.items()),
        job.sites,
        job.measure,
        (job.traced, job.trailed, job.covered),
        job.limits,
    )
    engine = key_of(RUNS, common)
    return [
        key_of(RUNS, (engine, job.probes[index].identity, loss, SEED)) for index, loss in job.items
    ]
