"""Run independent jobs in parallel, each in its own process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import msgspec

from harness.core.run import Run
from harness.runs.cache import Cache
from harness.runs.cached_runs import RUNS, keys_of
from harness.runs.isolated import EngineDoesNotLoad, run_isolated
from harness.runs.protocol import Job
from harness.sandbox.parallel import map_in_parallel


def fill_cache(jobs: Sequence[Job], cache: Cache, processes: int) -> None:
    """Put the runs of the jobs into the cache, so that `run_cached` finds them.

    The runs of an engine that does not load are left out: `run_cached` says why there are none.
    """
    missing = [job.only(positions) for job in jobs if (positions := _missing(job, cache))]
    with closing(map_in_parallel(_run, missing, min(processes, len(missing)))) as results:
        for job, data in zip(missing, results, strict=True):
            runs = msgspec.msgpack.decode(data, type=list[Run])
            cache.put(RUNS, dict(zip(keys_of(job), runs, strict=bool(runs))))


def _missing(job: Job, cache: Cache) -> list[int]:
    """Return the positions of the steps whose runs are not cached."""
    keys = keys_of(job)
    cached = cache.get(RUNS, keys)
    return [position for position, key in enumerate(keys) if key not in cached]


def _run(job: Job) -> bytes:
    """Return the encoded runs of a job; none if its engine does not load."""
    try:
        return msgspec.msgpack.encode(run_isolated(job))
    except EngineDoesNotLoad:
        return msgspec.msgpack.encode([])
