"""Running a recipe with many seeds, on the clean and the broken engine, with one process per core.

The runs use the same sandbox and the same cache as probes of steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import closing

import msgspec
import numpy as np

from harness.core.errors import EnvironmentProblem
from harness.core.message import message
from harness.core.run import Run
from harness.engines.engine import Engine
from harness.experiment.baseline import failed_runs, job_for
from harness.runs.cache import Cache
from harness.runs.cached_runs import RUNS, keys_of
from harness.runs.isolated import EngineDoesNotLoad, run_isolated
from harness.runs.protocol import Job
from harness.sandbox.limits import Limits
from harness.sandbox.parallel import available_cores, map_in_parallel
from harness.training.recipe import Recipe
from harness.training.statistics import Sample

LIMITS = Limits()
"""The limits of one run; a recipe takes a few tenths of a second."""

HIGHER_IS_BETTER = ("accuracy", "recall")
LOWER_IS_BETTER = ("loss", "error")
"""The last words of the names of metrics that measure the quality of a model."""


def is_better(metric: str, verdict: str) -> bool:
    """Whether a metric that moved this way makes the broken training look better."""
    word = metric.rpartition("_")[2]
    return (word in HIGHER_IS_BETTER and verdict == "higher") or (
        word in LOWER_IS_BETTER and verdict == "lower"
    )


def metric_values(runs: Sequence[Run], metric: str) -> Sample:
    """Return the last value of a metric in each run's log.

    NaN and missing values count as infinitely bad, so that they cannot favour a break.
    """
    word = metric.rpartition("_")[2]
    worst = -math.inf if word in HIGHER_IS_BETTER else math.inf
    values = np.array([_last(run, metric) for run in runs])
    return np.where(np.isnan(values), worst, values)


def metrics_of(runs: Iterable[Run]) -> list[str]:
    """Return the names that the runs log, in the order of their first occurrence."""
    return list(dict.fromkeys(name for run in runs for entry in run.log for name in entry))


def _last(run: Run, metric: str) -> float:
    logged = [entry[metric] for entry in run.log if metric in entry]
    return float(logged[-1].numpy().reshape(-1)[0]) if logged else math.nan


def run_both(
    recipe: Recipe,
    clean: Engine,
    broken: Engine,
    seeds: Sequence[int],
    cache: Cache,
    limits: Limits = LIMITS,
) -> tuple[list[Run], list[Run]]:
    """Return the recipe's runs with these seeds on both engines, in the order of the seeds.

    Raises EnvironmentProblem if the clean engine fails with a seed.
    """
    jobs = [_job(recipe, engine, seeds, limits) for engine in (clean, broken)]
    first, second = _run_cached(jobs, cache)
    for run in first:
        if run.failure or not run.log:
            why = run.failure.sentence if run.failure else message("it logs nothing")
            raise EnvironmentProblem(
                message(
                    "the recipe `{recipe}` fails unpatched, with {run}: {why}",
                    recipe=recipe.name,
                    run=run.probe,
                    why=why,
                ),
                "correct the recipe; a break is compared with a training that works",
            )
        for name, value in (pair for entry in run.log for pair in entry.items()):
            if math.prod(value.shape) != 1:
                raise EnvironmentProblem(
                    message(
                        "the recipe `{recipe}` logs `{name}` of shape {shape}",
                        recipe=recipe.name,
                        name=name,
                        shape=value.shape,
                    ),
                    "log one number under each name",
                )
    return first, second


def reaches(recipe: Recipe, broken: Engine, seed: int, cache: Cache) -> bool:
    """Whether one run of the recipe executes the patched code."""
    job = msgspec.structs.replace(_job(recipe, broken, [seed]), sites=broken.sites)
    ((run,),) = _run_cached([job], cache)
    return bool(run.reached)


def _job(recipe: Recipe, engine: Engine, seeds: Sequence[int], limits: Limits = LIMITS) -> Job:
    """Return the job for these seeds, without recording sites, which would slow the runs down."""
    probes = [recipe.probe(seed) for seed in seeds]
    return job_for(engine.without_sites(), probes, limits)


# ----- One process per core -----


def _run_cached(jobs: Sequence[Job], cache: Cache) -> list[list[Run]]:
    """Like `run_cached`, for several jobs; the missing runs are distributed over the cores."""
    keys = [keys_of(job) for job in jobs]
    runs_by_key = cache.get(RUNS, [key for job_keys in keys for key in job_keys])
    pieces: list[tuple[list[bytes], Job]] = []
    for job, job_keys in zip(jobs, keys, strict=True):
        missing_items = [i for i, key in enumerate(job_keys) if key not in runs_by_key]
        for part in range(available_cores()):
            share = missing_items[part :: available_cores()]
            if share:
                pieces.append(([job_keys[i] for i in share], job.only(share)))
    missing = [piece for _, piece in pieces]
    with closing(map_in_parallel(_run, missing, min(available_cores(), len(missing)))) as results:
        for (job_keys, _), runs in zip(pieces, results, strict=True):
            fresh = dict(zip(job_keys, runs, strict=True))
            cache.put(RUNS, fresh)
            runs_by_key |= fresh
    return [[runs_by_key[key] for key in job_keys] for job_keys in keys]


def _run(job: Job) -> list[Run]:
    try:
        return run_isolated(job)
    except EngineDoesNotLoad as error:
        return failed_runs(job, error)
