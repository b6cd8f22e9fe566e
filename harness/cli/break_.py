"""Breaks, run and shown on the terminal: `harness break`.

A report that is cached is looked for first: then nothing is prepared, and little is imported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
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
from harness.cli.session import Background, CommandSession, print_json
from harness.core.errors import DoesNotApply, UsageError
from harness.core.message import message, shortened, visible

if TYPE_CHECKING:
    from harness.cli.prediction import Asked
    from harness.core.report import PredictionReport, Report
    from harness.experiment.patching import PatchedEngine
    from harness.learn.events import PredictionMade
    from harness.pages.page import Page
    from harness.pages.probe import Probe
    from harness.training.comparison import TrainingReport
    from harness.training.recipe import TrainingExperiment


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
    session = CommandSession(breaks, engine, on, lang, json, not no_cache)
    broken = session.page(page)
    if html:
        from harness.cli.html import require_lessons, write_lessons  # most commands write no file

        require_lessons([broken], html)
    shown = broken if json else session.translated(broken)
    asking = session.is_interactive and not no_predict
    if session.is_interactive:
        from harness.report.pages import show_first_words

        show_first_words(session.console, shown, session.place(shown), hypothesis=asking)
        if asking:
            session.show_introduction(shown)
    with session.busy():
        prepared = _prepare(session, broken, probe or (), seeds, full=full)
    report: Report | TrainingReport
    predictions: Sequence[PredictionReport] = ()
    if json:
        report = prepared.run(lambda _: None)
        print_json(report)
    elif isinstance(prepared, _PreparedTraining):
        report, predictions = _show_training(session, shown, prepared, asking=asking)
    else:
        report, predictions = _show_break(session, shown, prepared, asking=asking, full=full)
    if session.is_interactive:
        record_break(session, broken, report, predictions)
    if html:
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
    session: CommandSession, shown: Page, prepared: _Prepared, *, asking: bool, full: bool
) -> tuple[Report, list[PredictionReport]]:
    """Ask for predictions, run, and print the report; outcomes before the diagnostics."""
    from harness.core.report import Report
    from harness.report import one_screen, pages
    from harness.report.terminal import show_diff

    console = session.console
    running = None if isinstance(prepared.change, Report) else Background(prepared.run)

    def wait(*, first: bool = False) -> Report:
        return session.wait(running, first=first) if running else prepared.run(lambda _: None)

    predictions: list[PredictionReport] = []
    if asking:
        from harness.cli.prediction import predict

        def show_change() -> None:
            one_screen.show_surroundings(console, prepared.change)

        show_change()
        probes, questions = prepared.probes, prepared.questions
        predictions += predict(
            console, shown, probes, questions, lambda: wait(first=True), show_change
        )
    if asking or not session.is_interactive:
        pages.show_title(console, shown, session.place(shown))
    pages.show_engine(console, shown, prepared.change.engine)
    if prepared.change.engine.foreign and (report := wait()).resembles:
        one_screen.show_resemblance(console, report)
        return report, predictions
    if full:
        show_diff(console, prepared.change.diff, prepared.change.sites)
        from harness.report.full import show_full

        report = wait()
        show_full(console, report, prepared.probes)
        if not report.engine.foreign:
            session.show_next(shown)
        return report, predictions
    one_screen.show_change(console, prepared.change)
    one_screen.show_outcomes(console, wait(first=True), prepared.probes, predictions)
    report = wait()
    following = "" if report.engine.foreign else session.following(shown)
    one_screen.show_lessons(console, report, predictions, following)
    return report, predictions


def _show_training(
    session: CommandSession, shown: Page, prepared: _PreparedTraining, *, asking: bool
) -> tuple[TrainingReport, list[PredictionReport]]:
    """Ask for predictions, run all seeds, and print the report."""
    from harness.cli.prediction import ask_moves, scored_moves, show_score
    from harness.report import pages
    from harness.report.terminal import show_diff

    console, experiment = session.console, prepared.experiment
    if not session.is_interactive:
        pages.show_title(console, shown)
    if not asking:
        pages.show_first_section(console, shown)
    show_diff(console, experiment.diff, experiment.sites)
    running = Background(prepared.run)
    moves = ask_moves(console, list(experiment.expectation.moves)) if asking else {}
    report = session.wait(running)
    session.show(report, page=shown)
    predictions = scored_moves(shown, moves, report)
    if predictions:
        show_score(console, predictions)
    session.show_next(shown)
    return report, predictions


def record_break(
    session: CommandSession,
    page: Page,
    report: Report | TrainingReport,
    predictions: Iterable[PredictionReport],
) -> None:
    """Remember that the report was read, and the predictions with what was observed.

    Nothing is remembered about another engine, since a page is about ours.
    """
    if report.engine.foreign:
        return
    from harness.learn.events import PageFinished

    session.journal.record(*predictions_made(predictions), PageFinished(page=page.id))


def predictions_made(predictions: Iterable[PredictionReport]) -> list[PredictionMade]:
    """Return the events that remember predictions."""
    from harness.learn.events import PredictionMade

    return [
        PredictionMade(
            page=item.page,
            probe=_line(item.probe),
            loss=item.loss,
            predicted=_line(item.predicted),
            actual=_line(item.actual),
            right=item.right,
            question=_line(item.question),
        )
        for item in predictions
    ]


def _line(text: str) -> str:
    """Return a text in a form that an event can store: a typed answer may contain anything."""
    from harness.learn.events import LONGEST

    return shortened(visible(" ".join(text.split())), LONGEST)


# ----- Preparing: nothing is executed -----


def _prepare(
    session: CommandSession, page: Page, probes: Sequence[str], seeds: int | None, *, full: bool
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
        if full or not session.engine.foreign:
            raise
        raise session.without_site(page) from None


def _show_absence(session: CommandSession, page: Page) -> Report:
    """Print what is known about a break that does not apply: does the engine already have it?"""
    from harness.experiment.lab import report_absence

    report = report_absence(page, session.engine, session.variant_id)
    report = _with_resemblance(session, page, report)
    if session.json:
        print_json(report)
    elif report.resembles:
        from harness.report.one_screen import show_resemblance

        show_resemblance(session.console, report)
    return report


def _with_resemblance(session: CommandSession, page: Page, report: Report) -> Report:
    """Return the report; on another engine, it says if the unbroken engine has the bug too.

    Then it has no runs: they would be those of a second change to code that is wrong already.
    """
    if not session.engine.foreign or page.is_about(session.engine.name):
        return report
    import msgspec

    from harness.experiment.conformance import resembling_probes

    probes = resembling_probes(page, session.engine, session.catalogue, session.baseline)
    if not probes:
        return report
    return msgspec.structs.replace(report, resembles=probes, agrees=False, runs=[])


def _prepare_probed(session: CommandSession, page: Page, names: Sequence[str]) -> _Prepared:
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
        report = run_lab(experiment, session.baseline, early, causes=True)
        report = _with_resemblance(session, page, report)
        if key:
            session.cache.put(REPORTS, {key: CachedReport(report, experiment.probes)})
        return report

    return _Prepared(experiment, run, experiment.probes, experiment.questions)


def _prepare_training(session: CommandSession, page: Page, seeds: int | None) -> _PreparedTraining:
    from harness.training.lab import choose_seeds, run_training
    from harness.training.recipe import prepare_training

    chosen = choose_seeds(seeds)
    engine = session.context_for(page).engine
    experiment = prepare_training(page, session.catalogue, engine, variant=session.variant)
    return _PreparedTraining(experiment, lambda _: run_training(experiment, session.cache, chosen))
