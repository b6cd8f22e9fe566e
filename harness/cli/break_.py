"""`harness break ID`: put a break into the engine, predict, run, and compare with the page."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from harness.cli.session import Background, Session, print_json
from harness.core.errors import DoesNotApply, UsageError
from harness.core.message import message

if TYPE_CHECKING:
    from harness.core.report import Report
    from harness.experiment.patching import PatchedEngine
    from harness.pages.page import Page
    from harness.pages.probe import Probe
    from harness.report.terminal import Screen
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
    if session.is_interactive:
        from harness.report.terminal import show_first_words

        show_first_words(session.console, session.translated(broken))
    prepared = _prepare(session, broken, probe or (), seeds)
    if json:
        report = prepared.run()
        print_json(report)
    else:
        predict = session.is_interactive and not no_predict
        report = _show_run(session, broken, prepared, predict)
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
    run: Callable[[], Report | TrainingReport]
    ask: Callable[[Screen], Mapping[str, str]]
    """Asks for predictions."""
    details: Mapping[str, object]
    """What the renderer shows beside the report."""


def _show_run(
    session: Session, page: Page, prepared: _Prepared, predict: bool
) -> Report | TrainingReport:
    """Print the change, ask for predictions, run, and print the report."""
    from harness.core.report import Report
    from harness.pages.front_matter import TrainingBreak
    from harness.report import terminal

    console, shown, change = session.console, session.translated(page), prepared.change
    if session.is_interactive:
        terminal.show_place(console, shown, change.engine)
    else:
        terminal.show_heading(console, shown, change.engine)
        if isinstance(page.front, TrainingBreak):
            terminal.show_first_section(console, shown)
    terminal.show_diff(console, change.diff, change.sites)
    cached = isinstance(change, Report)
    running = None if cached else Background(prepared.run)
    predictions = prepared.ask(console) if predict else {}
    report = session.wait(running) if running else prepared.run()
    if predict and isinstance(report, Report) and report.questions:
        from harness.cli.questions import ask_questions

        ask_questions(console, report.questions)
    session.show(report, **prepared.details)
    if session.is_interactive:
        from harness.cli.recording import judged, record_break

        record_break(session, page, report, judged(page, report, predictions))
    if predictions:
        from harness.cli.prediction import show_score

        show_score(console, predictions, report)
    if not report.engine.foreign:
        session.show_next(page)
    return report


# ----- Preparing: nothing is executed -----


def _prepare(session: Session, page: Page, probes: Sequence[str], seeds: int | None) -> _Prepared:
    from harness.pages.front_matter import TrainingBreak

    if isinstance(page.front, TrainingBreak):
        if probes:
            raise UsageError(
                message("`{page}` has no probes: it is a whole training", page=page.id), "--seeds N"
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

    from harness.experiment.resemblance import resembling_probes

    probes = resembling_probes(page, session.engine, session.catalogue, session.baseline)
    agrees = report.agrees and not probes
    return msgspec.structs.replace(report, resembles=probes, agrees=agrees)


def _prepare_probed(session: Session, page: Page, names: Sequence[str]) -> _Prepared:
    """Prepare a break that is judged probe by probe. Its report may be cached."""
    from harness.experiment.cached import REPORTS, CachedReport, key_of_report

    start = time.perf_counter()
    key = key_of_report(page, session.catalogue, session.engine, session.variant, names)
    if key and (cached := session.cache.get(REPORTS, [key]).get(key)):
        return _probed(
            cached.report,
            cached.probes,
            lambda: cached.with_seconds(time.perf_counter() - start),
        )

    from harness.experiment.lab import run_lab
    from harness.experiment.patching import prepare

    variant = session.variant
    experiment = prepare(page, session.catalogue, session.engine, variant=variant, probes=names)

    def run() -> Report:
        report = _with_resemblance(session, page, run_lab(experiment, session.baseline))
        if key:
            session.cache.put(REPORTS, {key: CachedReport(report, experiment.probes)})
        return report

    return _probed(experiment, experiment.probes, run)


def _probed(
    change: PatchedEngine | Report, probes: Sequence[Probe], run: Callable[[], Report]
) -> _Prepared:
    def ask(console: Screen) -> Mapping[str, str]:
        from harness.cli.prediction import ask_outcomes

        return ask_outcomes(console, probes)

    return _Prepared(change, run, ask, {"probes": probes})


def _prepare_training(session: Session, page: Page, seeds: int | None) -> _Prepared:
    from harness.check.runner import prepare_page
    from harness.cli.prediction import ask_moves
    from harness.training.experiment import TrainingExperiment
    from harness.training.lab import choose_seeds, run_training

    chosen = choose_seeds(seeds)
    experiment = prepare_page(page, session.context_for(page), session.variant)
    assert isinstance(experiment, TrainingExperiment)
    return _Prepared(
        change=experiment,
        run=lambda: run_training(experiment, session.cache, chosen),
        ask=lambda console: ask_moves(console, list(experiment.expectation.moves)),
        details={"page": session.translated(page)},
    )
