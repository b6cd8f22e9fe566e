"""`harness grade SUITE`: grade an untrusted test suite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import (
    AllowConftest,
    Breaks,
    CorrectVariants,
    EngineName,
    HtmlLang,
    Json,
    Limit,
    NoCache,
    Seed,
    Selection,
)
from harness.cli.results import FeedbackName, FormatName, WeightsFile, open_results
from harness.cli.session import Session
from harness.core.errors import UsageError
from harness.core.message import message

if TYPE_CHECKING:
    from harness.cli.results import Results
    from harness.grade.suite import SuiteReport


def grade(
    suite: Annotated[
        Path, typer.Argument(metavar="SUITE", help="A file with tests, or a folder of them.")
    ],
    select: Selection = "all",
    correct: CorrectVariants = None,
    engine: EngineName = None,
    breaks: Breaks = None,
    seed: Seed = None,
    allow_conftest: AllowConftest = True,
    limit: Limit = 20,
    feedback: FeedbackName = None,
    weights: WeightsFile = None,
    form: FormatName = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the result to a file.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="List all breaks that are not killed.")
    ] = False,
    lang: HtmlLang = None,
    json: Json = False,
    no_cache: NoCache = False,
) -> int:
    """Run a suite on correct engines and on every break, confined, as its author is unknown."""
    from dataclasses import replace

    from harness.grade.grading import grade_suite, require_suite
    from harness.grade.plan import LIMITS, plan_grading
    from harness.report.bar import ProgressBar
    from harness.report.files import require_writable

    require_suite(suite)
    session = Session(breaks, engine, json=json, cached=not no_cache)
    if json and form not in (None, "json"):
        problem = message("--json cannot be combined with --format {form}", form=form)
        raise UsageError(problem, "leave one of them out")
    form = "json" if json else form
    results = open_results(session, feedback=feedback, weights=weights, form=form, lang=lang)
    if out is not None:
        require_writable(out)
    plan = plan_grading(
        session.catalogue,
        session.engine,
        session.cache,
        selection=select,
        correct=correct,
        seed=seed.encode() if seed is not None else None,
        limits=replace(LIMITS, cpu_seconds=limit, seconds=3.0 * limit),
        allow_conftest=allow_conftest,
        stages=results.feedback != "score",
    )
    results.weights.require_some(mutant.page for mutant in plan.breaks)
    with ProgressBar() as bar:
        report = grade_suite(suite, plan, bar.watch)
    show_result(results, report, out, verbose=verbose)
    return 0 if report.gradable else 1


def show_result(
    results: Results, report: SuiteReport, out: Path | None = None, *, verbose: bool = False
) -> None:
    """Print the result of a suite, or write it to a file.

    Raises EnvironmentProblem if the file cannot be written.
    """
    from harness.report.grading import FOR_INSTRUCTORS, text

    shown = results.disclosed(report, to_student=results.form not in FOR_INSTRUCTORS)
    if out is not None:
        results.write(shown, out)
    elif results.form == "text":
        console = results.session.console
        for line in text.lines(shown, verbose, console.width):
            console.out(line, highlight=False)
    else:
        print(results.render(shown).rstrip("\n"))
