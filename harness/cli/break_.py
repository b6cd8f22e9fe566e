"""`harness break ID`: put a break into the engine, predict, run, and compare with the page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import (
    Breaks,
    EngineName,
    Json,
    Lang,
    NoCache,
    PageId,
    Probes,
    VariantId,
)
from harness.cli.session import Session, print_json
from harness.core.errors import DoesNotApply, UsageError

if TYPE_CHECKING:
    from harness.core.report import Report
    from harness.experiment.cached import CachedReport
    from harness.experiment.patching import Experiment
    from harness.pages.page import Page


def break_engine(
    page: PageId,
    engine: EngineName = None,
    on: VariantId = None,
    probe: Probes = None,
    breaks: Breaks = None,
    json: Json = False,
    no_predict: Annotated[
        bool, typer.Option("--no-predict", help="Do not ask for a prediction first.")
    ] = False,
    no_cache: NoCache = False,
    lang: Lang = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds", metavar="N", help="Number of seeds, for a whole training (default: 20)."
        ),
    ] = None,
) -> int:
    """Put a break into the engine, in memory, and see what happens, probe by probe."""
    from harness.pages.front_matter import TrainingBreak

    session = Session(breaks, engine, on, lang, json, not no_cache, explain=True)
    broken = session.page(page)
    predict = session.is_interactive and not no_predict
    if isinstance(broken.front, TrainingBreak):
        if probe:
            raise UsageError(f"`{page}` has no probes: it is a whole training", "--seeds N")
        return _break_training(session, broken, seeds, predict)
    if seeds is not None:
        raise UsageError(f"`{page}` does not need many seeds", "leave --seeds out")
    return _break_probed(session, broken, probe or (), predict)


# ----- A break that is judged probe by probe -----


def _break_probed(session: Session, page: Page, probes: Sequence[str], predict: bool) -> int:
    try:
        experiment, run = _cached_or_new(session, page, probes)
    except DoesNotApply:
        if session.json:
            from harness.experiment.lab import report_absence

            print_json(report_absence(page, session.engine, session.variant_id))
        raise
    if session.json:
        report = run()
        print_json(report)
    else:
        report = _show_run(session, page, experiment, run, predict)
    return 0 if report.agrees or report.engine.foreign else 1


def _cached_or_new(
    session: Session, page: Page, probes: Sequence[str]
) -> tuple[Experiment | CachedReport, Callable[[], Report]]:
    """Return the experiment, and a function that returns its report, cached or new."""
    from harness.experiment.cached import REPORTS, CachedReport, key_of_report

    start = time.perf_counter()
    key = key_of_report(page, session.catalogue, session.engine, session.variant, probes)
    if key and (cached := session.cache.get(REPORTS, [key]).get(key)):
        return cached, lambda: cached.with_seconds(time.perf_counter() - start)

    from harness.experiment.lab import run_lab
    from harness.experiment.patching import prepare

    variant = session.variant
    experiment = prepare(page, session.catalogue, session.engine, variant=variant, probes=probes)

    def run() -> Report:
        report = run_lab(experiment, session.baseline)
        if key:
            session.cache.put(REPORTS, {key: CachedReport(report, experiment.probes)})
        return report

    return experiment, run


def _show_run(
    session: Session,
    page: Page,
    experiment: Experiment | CachedReport,
    run: Callable[[], Report],
    predict: bool,
) -> Report:
    from harness.report import terminal

    console, shown = session.console, session.translated(page)
    terminal.show_heading(console, shown, experiment.engine)
    if predict:
        terminal.show_first_section(console, shown)
    terminal.show_diff(console, experiment.diff, experiment.sites)
    predictions = {}
    if predict:
        from harness.cli.prediction import ask_predictions

        predictions = ask_predictions(console, experiment.probes)
    report = run()
    terminal.show_report(console, report, experiment.probes)
    if predictions:
        from harness.cli.prediction import show_score

        show_score(console, predictions, report)
    if not report.engine.foreign:
        _show_next(session, page)
    return report


def _show_next(session: Session, page: Page) -> None:
    """If the page is on the track, print the command for the next one."""
    track = list(session.catalogue.track)
    if page.id in track[:-1]:
        following = track[track.index(page.id) + 1]
        console = session.console
        console.print(
            console.say("Next on the track: {command}", command=f"harness break {following}")
        )


# ----- A whole training -----


def _break_training(session: Session, page: Page, seeds: int | None, predict: bool) -> int:
    from harness.check.runner import prepare_page
    from harness.report.training import begin_training, show_training
    from harness.training.experiment import TrainingExperiment
    from harness.training.lab import choose_seeds, run_training

    chosen = choose_seeds(seeds)
    experiment = prepare_page(page, session.context_for(page), session.variant)
    assert isinstance(experiment, TrainingExperiment)
    if session.json:
        report = run_training(experiment, session.cache, chosen)
        print_json(report)
    else:
        console, shown = session.console, session.translated(page)
        predictions = begin_training(console, shown, experiment, predict)
        report = run_training(experiment, session.cache, chosen)
        show_training(console, shown, report, predictions)
    return 0 if report.agrees else 1
