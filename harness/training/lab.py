"""Run a whole training program, clean and broken, over many seeds: a page in, a report out.

The runs use the same sandbox and the same cache as probes of steps, with one process per core.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence

import numpy as np

from harness.core.errors import EnvironmentProblem, PageError, UsageError
from harness.core.message import message
from harness.core.run import Run
from harness.core.vocabulary import Outcome
from harness.engines.engine import Engine
from harness.experiment.baseline import Baseline, failed_runs, job_for
from harness.experiment.description import compare_losses
from harness.pages.catalogue import nearest
from harness.pages.checks import Invariant, LogEntries, invariant_of
from harness.pages.front_matter import Advice, TrainingBreak
from harness.pages.probe import Probe
from harness.runs.cache import Cache
from harness.runs.cached_runs import run_cached, run_in_parallel
from harness.runs.isolated import EngineDoesNotLoad
from harness.sandbox.limits import Limits
from harness.sandbox.parallel import available_cores
from harness.training.comparison import (
    HIDDEN,
    AlarmReport,
    Band,
    CrashReport,
    MetricComparison,
    MetricReport,
    Sample,
    TrainingReport,
    compare,
    holm,
    outside,
    runs_needed,
)
from harness.training.recipe import Crash, TrainingExperiment

SEEDS = 20
"""The default number of runs, as in DeepCrime: see `comparison.MATTERS`."""

MOST_SEEDS = 10_000
"""The largest number of runs; more would take days."""


def run_training(
    experiment: TrainingExperiment, cache: Cache, seeds: Sequence[int] = range(SEEDS)
) -> TrainingReport:
    """Run both sides with every seed, and compare them with each other and with the page.

    Raises UsageError for fewer than two seeds, PageError for a metric that the recipe does not log
    and for a patch that never runs, EnvironmentProblem if the clean recipe fails.
    """
    choose_seeds(len(seeds))
    start = time.perf_counter()
    clean, broken = run_both(experiment, seeds, cache)
    _refuse_unknown(experiment, metrics_of(clean))
    _refuse_unreached(experiment, clean, broken, seeds[0], cache)
    crash = _crash_report(experiment.expectation.crash, broken)
    ended = [pair for pair in zip(clean, broken, strict=True) if not pair[1].failure]
    metrics, tells, accuses = _compare_all(experiment, ended) if len(ended) > 1 else ([], 0.0, 0.0)
    needed = [m.runs_needed for m in metrics if m.in_log and m.runs_needed]
    unmeasured = experiment.expectation.moves.keys() - {metric.metric for metric in metrics}
    agreements = [metric.agrees for metric in metrics] + [crash.agrees]
    alarms = _count_alarms(experiment, clean, broken, cache)
    agreements += [alarms.agrees] if alarms and len(seeds) >= SEEDS else []
    agrees = False not in agreements and not unmeasured
    advice = experiment.page.advice_on(None)[1] if agrees else Advice()
    return TrainingReport(
        schema=1,
        break_=experiment.page.id,
        kind=experiment.page.front.kind,
        engine=experiment.engine,
        recipe=experiment.recipe.name,
        seeds=len(seeds),
        sites=experiment.sites,
        diff=experiment.diff,
        headline=_headline(crash, metrics),
        agrees=agrees,
        seconds=round(time.perf_counter() - start, 3),
        crash=crash,
        metrics=metrics,
        one_run_tells=tells,
        one_run_accuses=accuses,
        runs_needed=min(needed, default=None),
        losses=compare_losses(broken[0], clean[0]),
        alarms=alarms,
        why=advice.why,
        beware=advice.beware,
        invariant=experiment.page.assertion,
    )


def choose_seeds(count: int | None) -> Sequence[int]:
    """Return the seeds 0 to `count` - 1; 20 seeds for None.

    Raises UsageError for fewer than two or more than MOST_SEEDS.
    """
    if count is not None and count < 2:
        raise UsageError(
            message("--seeds is {count}, but one run cannot show how runs differ", count=count),
            message("use at least 2; the default is {default}", default=SEEDS),
        )
    if count is not None and count > MOST_SEEDS:
        raise UsageError(
            message("--seeds is {count}", count=count),
            message("use at most {most}", most=MOST_SEEDS),
        )
    return range(SEEDS if count is None else count)


def _refuse_unknown(experiment: TrainingExperiment, metrics: Sequence[str]) -> None:
    page = experiment.page
    for metric in experiment.expectation.moves:
        if metric not in metrics:
            problem = message("names nothing that `{recipe}` logs", recipe=experiment.recipe.name)
            remedy = message(
                "{question}it logs {metrics}; or use `crash`",
                question=nearest(metric, metrics),
                metrics=", ".join(metrics),
            )
            raise page.mistake(("expect", metric), problem, remedy)


def _refuse_unreached(
    experiment: TrainingExperiment,
    clean: Sequence[Run],
    broken: Sequence[Run],
    seed: int,
    cache: Cache,
) -> None:
    """Raise PageError if the patch never runs; a log that differs proves that it does."""
    if any(run.log != other.log or other.failure for run, other in zip(clean, broken, strict=True)):
        return
    if not reaches(experiment, seed, cache):
        page, name = experiment.page, experiment.recipe.name
        problem = message("the recipe `{name}` never runs the changed code", name=name)
        remedy = "name a recipe that runs it, or change another place"
        raise PageError(page.path, page.line_of("recipe"), problem, remedy)


def _crash_report(expected: Crash, broken: Sequence[Run]) -> CrashReport:
    failed = [run for run in broken if run.failure]
    observed: Crash = (
        "never" if not failed else "always" if len(failed) == len(broken) else "sometimes"
    )
    evidence = f"{failed[0].probe}: {failed[0].failure}" if failed else ""
    return CrashReport(len(failed), observed, expected, observed == expected, evidence)


def _headline(crash: CrashReport, metrics: Sequence[MetricReport]) -> Outcome:
    """Return the headline: a metric that moves is a silent corruption."""
    if any(metric.verdict in ("lower", "higher") for metric in metrics):
        return "silent-corruption"
    return "crash" if crash.count else "disguised-correct"


# ----- Metrics -----


def _compare_all(
    experiment: TrainingExperiment, pairs: Sequence[tuple[Run, Run]]
) -> tuple[list[MetricReport], float, float]:
    """Return a report on every metric, and the shares of broken and clean runs with any outside."""
    clean, broken = ([pair[side] for pair in pairs] for side in (0, 1))
    names = metrics_of(clean)
    samples = {name: (metric_values(clean, name), metric_values(broken, name)) for name in names}
    compared = {name: compare(*both) for name, both in samples.items()}
    adjusted = dict(zip(names, holm([item.p for item in compared.values()]), strict=True))
    reports = [
        _metric_report(experiment, name, *samples[name], compared[name], adjusted[name])
        for name in names
    ]
    logged = [samples[name] for name in names if not name.startswith(HIDDEN)]
    tells = np.any([outside(broken_, clean_) for clean_, broken_ in logged], axis=0).mean()
    accuses = np.any([outside(clean_, clean_) for clean_, _ in logged], axis=0).mean()
    return reports, float(tells), float(accuses)


def _metric_report(
    experiment: TrainingExperiment,
    name: str,
    clean: Sample,
    broken: Sample,
    compared: MetricComparison,
    p: float,
) -> MetricReport:
    verdict, in_log = compared.verdict(p), not name.startswith(HIDDEN)
    expected = experiment.expectation.moves.get(name)
    return MetricReport(
        metric=name,
        in_log=in_log,
        clean=_band(clean),
        broken=_band(broken),
        verdict=verdict,
        expected=expected,
        agrees=None if expected is None else expected == verdict,
        effect=compared.effect,
        interval=compared.interval,
        p=p,
        one_run_tells=float(outside(broken, clean).mean()),
        one_run_accuses=float(outside(clean, clean).mean()),
        runs_needed=runs_needed(compared.effect) if verdict in ("lower", "higher") else None,
        better_than_correct=in_log and is_better(name, verdict),
    )


def _band(values: Sample) -> Band:
    return Band(float(values.min()), float(np.median(values)), float(values.max()))


# ----- Runs -----

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
    experiment: TrainingExperiment, seeds: Sequence[int], cache: Cache
) -> tuple[list[Run], list[Run]]:
    """Return the recipe's runs with these seeds on both engines, in the order of the seeds.

    Raises EnvironmentProblem if the clean engine fails with a seed.
    """
    recipe = experiment.recipe
    probes = [recipe.probe(seed) for seed in seeds]
    # Recording sites would slow the runs down.
    engines = experiment.clean.without_sites(), experiment.broken.without_sites()
    cores = available_cores()
    shares = [share for part in range(cores) if (share := probes[part::cores])]
    jobs = [job_for(engine, share, LIMITS) for engine in engines for share in shares]
    run_in_parallel(jobs, cache, cores)
    first, second = (_runs(one, probes, cache) for one in engines)
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


def reaches(experiment: TrainingExperiment, seed: int, cache: Cache) -> bool:
    """Whether one run of the recipe executes the patched code."""
    probe = experiment.recipe.probe(seed)
    (run,) = _runs(experiment.broken, [probe], cache)
    return bool(run.reached)


def _runs(engine: Engine, probes: Sequence[Probe], cache: Cache) -> list[Run]:
    """Return an engine's runs; all fail if it does not load."""
    job = job_for(engine, probes, LIMITS)
    try:
        return run_cached(job, cache)
    except EngineDoesNotLoad as error:
        return failed_runs(job, error)


# ----- Alarms of the invariant -----


def _count_alarms(
    experiment: TrainingExperiment, clean: Sequence[Run], broken: Sequence[Run], cache: Cache
) -> AlarmReport | None:
    """Return the shares of runs on which the page's invariant fails; None if it has none.

    Its argument is the log of one run, without the values that a real log would not have. Page code
    is run in confined children only: each log is sent as the text of a test. Broken runs that crash
    are left out, since they need no invariant.

    Raises PageError for a block that is not an invariant.
    """
    page = experiment.page
    invariant = invariant_of(page)
    if invariant is None:
        return None
    stated = page.front_as(TrainingBreak).alarms
    ended = [run for run in broken if not run.failure]
    results = [_results(invariant, experiment.clean, runs, cache) for runs in (clean, ended)]
    problems = [
        f"with {run.probe}: {run.failure}"
        for runs in results
        for run in runs
        if run.failure and not _is_alarm(run)
    ]
    return AlarmReport(
        assertion=page.assertion,
        false=_share(results[0]),
        true=_share(results[1]),
        stated_false=stated.false if stated else None,
        stated_true=stated.true if stated else None,
        problem=problems[0] if problems else None,
    )


def log_of(run: Run) -> LogEntries:
    """Return the log of a run as a developer has it."""
    entries = (
        {
            name: float(value.numpy().reshape(-1)[0])
            for name, value in entry.items()
            if not name.startswith(HIDDEN)
        }
        for entry in run.log
    )
    return [entry for entry in entries if entry]


def _results(
    invariant: Invariant, engine: Engine, runs: Sequence[Run], cache: Cache
) -> Sequence[Run]:
    tests = [invariant.on_log(run.probe, log_of(run)) for run in runs]
    if not tests:
        return []
    clean = Baseline(cache, ()).clean(engine, tests)
    return [clean[test.name, None].run for test in tests]


def _is_alarm(run: Run) -> bool:
    return run.failure is not None and run.failure.type == "AssertionError"


def _share(runs: Sequence[Run]) -> float:
    return sum(map(_is_alarm, runs)) / len(runs) if runs else 0.0
