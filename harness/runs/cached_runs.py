"""Cached runs: only what has not been run before is run.

A run depends on the engine's source, the probe, the loss, what was measured, Python, the libraries,
and our own observing code. All of them are part of its key.
"""

from __future__ import annotations

from harness.core.run import Run
from harness.runs.cache import RUN_ROOMS, Cache, Kind, installed_packages, key_of
from harness.runs.isolated import run_isolated
from harness.runs.protocol import SEED, Job

RUNS: Kind[Run] = Kind("run", Run, RUN_ROOMS)


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
    # Functions are recorded with the file that they are in.
    observed = key_of(RUNS, (job.measure, job.complete, job.trailed, job.covered and job.root))
    return [
        key_of(RUNS, (engine, job.probes[index].identity, loss, SEED, None if traced else observed))
        for index, loss, traced in job.steps
    ]
