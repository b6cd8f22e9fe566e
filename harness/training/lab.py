"""Run a whole training program, clean and broken, over many seeds: a page in, a report out."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from harness.core.errors import PageError, UsageError
from harness.core.message import message
from harness.core.run import Run
from harness.core.vocabulary import Outcome
from harness.experiment.description import compare_losses
from harness.pages.catalogue import nearest
from harness.pages.front_matter import Advice
from harness.runs.cache import Cache
from harness.training.alarms import count_alarms
from harness.training.experiment import Crash, TrainingExperiment
from harness.training.record import HIDDEN, Band, CrashReport, MetricReport, TrainingReport
from harness.training.statistics import (
    MetricComparison,
    Sample,
    compare,
    holm,
    outside,
    runs_needed,
)
from harness.training.trials import is_better, metric_values, metrics_of, reaches, run_both

SEEDS = 20
"""The default number of runs, as in DeepCrime: see `statistics.MATTERS`."""

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
    clean, broken = run_both(experiment.recipe, experiment.clean, experiment.broken, seeds, cache)
    _refuse_unknown(experiment, metrics_of(clean))
    _refuse_unreached(experiment, clean, broken, seeds[0], cache)
    crash = _crash_report(experiment.expectation.crash, broken)
    ended = [pair for pair in zip(clean, broken, strict=True) if not pair[1].failure]
    metrics, tells, accuses = _compare_all(experiment, ended) if len(ended) > 1 else ([], 0.0, 0.0)
    needed = [m.runs_needed for m in metrics if m.in_log and m.runs_needed]
    unmeasured = experiment.expectation.moves.keys() - {metric.metric for metric in metrics}
    agreements = [metric.agrees for metric in metrics] + [crash.agrees]
    alarms = count_alarms(experiment.page, experiment.clean, clean, broken, cache)
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
    if not reaches(experiment.recipe, experiment.broken, seed, cache):
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
