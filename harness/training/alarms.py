"""The invariant of a page with a recipe: how often it fails on correct and on broken runs.

Its argument is the log of one run, without the values that a real log would not have. Page code is
run in confined children only: each log is sent as the text of a test.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.core.run import Run
from harness.engines.engine import Engine
from harness.experiment.baseline import Baseline
from harness.pages.checks import Invariant, LogEntries, invariant_of
from harness.pages.front_matter import TrainingBreak
from harness.pages.page import Page
from harness.runs.cache import Cache
from harness.training.record import HIDDEN, AlarmReport


def count_alarms(
    page: Page, engine: Engine, clean: Sequence[Run], broken: Sequence[Run], cache: Cache
) -> AlarmReport | None:
    """Return the shares of runs on which the page's invariant fails; None if it has none.

    Broken runs that crash are left out, since they need no invariant.

    Raises PageError for a block that is not an invariant.
    """
    invariant = invariant_of(page)
    if invariant is None:
        return None
    stated = page.front_as(TrainingBreak).alarms
    ended = [run for run in broken if not run.failure]
    results = [_results(invariant, engine, runs, cache) for runs in (clean, ended)]
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
