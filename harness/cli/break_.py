"""`harness break ID`: put a break into the engine, predict, run, and compare with the page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import (
    Breaks,
    EngineName,
    HtmlFile,
    Json,
    Lang,
    NoCache,
    PageId,
    Probes,
    VariantId,
)
from harness.cli.session import Background, Session, print_json
from harness.core.errors import DoesNotApply, UsageError
from harness.core.message import message

if TYPE_CHECKING:
    from harness.cli.prediction import Asked
    from harness.core.report import Prediction, Report
    from harness.experiment.patching import PatchedEngine
    from harness.pages.page import Page
    from harness.pages.probe import Probe
    from harness.report.terminal import Screen
    from harness.training.experiment import TrainingExperiment
    from harness.training.record import TrainingReport


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
    full: Annotated[
        bool, typer.Option("--full", help="Print the whole report, probe by probe.")
    ] = False,
    html: HtmlFile = None,
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
    session = Session(breaks, engine, on, lang, json, not no_cache, explain=True)
    broken = session.page(page)
    if html:
        from harness.cli.html import require_lessons

        require_lessons([broken], html)
    asking = session.is_interactive and not no_predict
    if session.is_interactive:
        from harness.report.terminal import show_first_words

        place = session.place(broken)
        show_first_words(session.console, session.translated(broken), place, hypothesis=asking)
    with session.busy():
        prepared = _prepare(session, broken, probe or (), seeds)
    report: Report | TrainingReport
    if json:
        report = prepared.run(lambda _: None)
        print_json(report)
    elif isinstance(prepared, _PreparedTraining):
        report = _show_training(session, broken, prepared, asking=asking)
    else:
        report = _show_break(session, broken, prepared, asking=asking, full=full)
    if html:
        from harness.cli.html import write_lessons

        write_lessons(session, [broken], html)
    return exit_status(report)


def exit_status(report: Report | TrainingReport) -> int:
    """Return 0 if all is as the page says; on another engine, if the break is judged and new."""
    from harness.core.report import Report

    if isinstance(report, Report) and report.engine.foreign:
        return 0 if report.judged and not (report.misplaced or report.resembles) else 1
    return 0 if report.agrees else 1


@dataclass(frozen=True)
class _Prepared:
    """A break that is ready to run."""

    change: PatchedEngine | Report
    """The engine and the change, from the patch or from a cached report."""
    run: Callable[[Callable[[Report], None]], Report]
    """Runs it; the argument is called with the outcomes as soon as they are known."""
    probes: Sequence[Probe]
    questions: Sequence[Asked]


@dataclass(frozen=True)
class _PreparedTraining:
    """A break with a recipe that is ready to run."""

    experiment: TrainingExperiment
    run: Callable[[Callable[[TrainingReport], None]], TrainingReport]


def _show_break(
    session: Session, page: Page, prepared: _Prepared, *, asking: bool, full: bool
) -> Report:
    """Ask for predictions, run, and print the report; outcomes before the diagnostics."""
    from harness.core.report import Report
    from harness.report import terminal

    console, shown = session.console, session.translated(page)
    cached = isinstance(prepared.change, Report)
    running = None if cached else Background(prepared.run)

    def wait(*, first: bool = False) -> Report:
        return session.wait(running, first=first) if running else prepared.run(lambda _: None)

    predictions: list[Prediction] = []
    if asking:
        terminal.show_change(console, prepared.change)
        predictions = _predictions(console, shown, prepared, lambda: wait(first=True))
    if asking or not session.is_interactive:
        terminal.show_title(console, shown, session.place(page))
    terminal.show_engine(console, shown, prepared.change.engine)
    if full:
        terminal.show_diff(console, prepared.change.diff, prepared.change.sites)
        from harness.report.full import show_full

        report = wait()
        show_full(console, report, prepared.probes)
        _record(session, page, report, predictions)
        if not report.engine.foreign:
            session.show_next(page)
        return report
    terminal.show_change(console, prepared.change)
    terminal.show_outcomes(console, wait(first=True), prepared.probes, predictions)
    report = wait()
    following = "" if report.engine.foreign else session.following(page)
    terminal.show_lessons(console, report, predictions, following)
    _record(session, page, report, predictions)
    return report


def _record(
    session: Session,
    page: Page,
    report: Report | TrainingReport,
    predictions: Sequence[Prediction],
) -> None:
    """Add a report that was read on a terminal to the learner's progress."""
    if session.is_interactive:
        from harness.cli.recording import record_break

        record_break(session, page, report, predictions)


def _predictions(
    console: Screen, page: Page, prepared: _Prepared, observe: Callable[[], Report]
) -> list[Prediction]:
    """Ask for predictions while the break runs; return those that were answered."""
    from harness.cli.prediction import predict

    return list(predict(console, page, prepared.probes, prepared.questions, observe))


def _show_training(
    session: Session, page: Page, prepared: _PreparedTraining, *, asking: bool
) -> TrainingReport:
    """Ask for predictions, run all seeds, and print the report."""
    from harness.cli.prediction import ask_moves, scored_moves, show_score
    from harness.report import terminal

    console, shown, experiment = session.console, session.translated(page), prepared.experiment
    if not session.is_interactive:
        terminal.show_title(console, shown)
    if not asking:
        terminal.show_first_section(console, shown)
    terminal.show_diff(console, experiment.diff, experiment.sites)
    running = Background(prepared.run)
    moves = ask_moves(console, list(experiment.expectation.moves)) if asking else {}
    report = session.wait(running)
    session.show(report, page=shown)
    predictions = scored_moves(page, moves, report)
    if predictions:
        show_score(console, predictions)
    _record(session, page, report, predictions)
    session.show_next(page)
    return report


# ----- Preparing: nothing is executed -----


def _prepare(
    session: Session, page: Page, probes: Sequence[str], seeds: int | None
) -> _Prepared | _PreparedTraining:
    from harness.pages.front_matter import TrainingBreak

    if isinstance(page.front, TrainingBreak):
        if probes:
            raise UsageError(
                message("`{page}` has no probes: it changes a whole training run", page=page.id),
                "leave --probe out",
            )
        return _prepare_training(session, page, seeds)
    if seeds is not None:
        raise UsageError(
            message("`{page}` does not need many seeds", page=page.id), "leave --seeds out"
        )
    try:
        return _prepare_probed(session, page, probes)
    except DoesNotApply:
        if _show_absence(session, page).resembles:
            raise typer.Exit(1) from None
        raise


def _show_absence(session: Session, page: Page) -> Report:
    """Print what is known about a break that does not apply: does the engine already have it?"""
    from harness.experiment.lab import report_absence

    report = report_absence(page, session.engine, session.variant_id)
    report = _with_resemblance(session, page, report)
    if session.json:
        print_json(report)
    elif report.resembles:
        from harness.report.terminal import show_resemblance

        show_resemblance(session.console, report)
    return report


def _with_resemblance(session: Session, page: Page, report: Report) -> Report:
    """Return the report; on another engine, it says if the unbroken engine has the bug too."""
    if not session.engine.foreign or page.is_about(session.engine.name):
        return report
    import msgspec

    from harness.experiment.conformance import resembling_probes

    probes = resembling_probes(page, session.engine, session.catalogue, session.baseline)
    agrees = report.agrees and not probes
    return msgspec.structs.replace(report, resembles=probes, agrees=agrees)


def _prepare_probed(session: Session, page: Page, names: Sequence[str]) -> _Prepared:
    """Prepare a break that is judged probe by probe. Its report may be cached."""
    from harness.experiment.cached import REPORTS, CachedReport, key_of_report

    start = time.perf_counter()
    key = key_of_report(page, session.catalogue, session.engine, session.variant, names)
    if key and (cached := session.cache.get(REPORTS, [key]).get(key)):
        report = cached.with_seconds(time.perf_counter() - start)
        return _Prepared(report, lambda _: report, cached.probes, report.questions)

    from harness.experiment.lab import run_lab
    from harness.experiment.patching import prepare, with_in_place

    variant = session.variant
    experiment = prepare(page, session.catalogue, session.engine, variant=variant, probes=names)
    experiment = with_in_place(experiment, session.catalogue)

    def run(announce: Callable[[Report], None]) -> Report:
        # Whether another engine resembles the break is known only at the end.
        early = None if experiment.foreign else announce
        report = run_lab(experiment, session.baseline, early)
        report = _with_resemblance(session, page, report)
        if key:
            session.cache.put(REPORTS, {key: CachedReport(report, experiment.probes)})
        return report

    return _Prepared(experiment, run, experiment.probes, experiment.questions)


def _prepare_training(session: Session, page: Page, seeds: int | None) -> _PreparedTraining:
    from harness.check.runner import prepare_page
    from harness.training.experiment import TrainingExperiment
    from harness.training.lab import choose_seeds, run_training

    chosen = choose_seeds(seeds)
    experiment = prepare_page(page, session.context_for(page), session.variant)
    assert isinstance(experiment, TrainingExperiment)
    return _PreparedTraining(experiment, lambda _: run_training(experiment, session.cache, chosen))
