"""`harness grade SUITE`: grade an untrusted test suite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import Breaks, EngineName, HtmlLang, Json, NoCache
from harness.cli.results import (
    FeedbackName,
    FormatName,
    OutFile,
    Verbose,
    WeightsFile,
    open_results,
)
from harness.cli.session import Session
from harness.core.errors import UsageError

if TYPE_CHECKING:
    from harness.grade.plan import GradingPlan
    from harness.report.language import Language


def grade(
    suites: Annotated[
        list[Path],
        typer.Argument(
            metavar="SUITE",
            help="A file with tests, or a folder of them; with --cohort, the folder of all "
            "submissions; with --merge, the folders with the results of shards.",
        ),
    ],
    select: Annotated[
        str,
        typer.Option(
            "--select",
            metavar="SELECTION",
            help="Breaks: ids, family:NAME, unit:NAME, level:N, track or all, separated by commas.",
        ),
    ] = "all",
    correct: Annotated[
        list[str] | None,
        typer.Option(
            "--correct",
            metavar="VARIANT",
            help="A variant on which the tests must pass; may be repeated.",
        ),
    ] = None,
    engine: EngineName = None,
    breaks: Breaks = None,
    seed: Annotated[
        str | None,
        typer.Option(
            "--seed", metavar="TEXT", help="The secret seed of the rewrites; do not publish it."
        ),
    ] = None,
    allow_conftest: Annotated[
        bool,
        typer.Option(
            "--allow-conftest/--no-conftest",
            help="Whether to include a submission's conftest.py files (the default).",
        ),
    ] = True,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", metavar="SECONDS", min=1, help="The limit of processor time for one run."
        ),
    ] = 20,
    feedback: FeedbackName = None,
    weights: WeightsFile = None,
    form: FormatName = None,
    out: OutFile = None,
    verbose: Verbose = False,
    lang: HtmlLang = None,
    cohort: Annotated[
        bool,
        typer.Option("--cohort", help="Grade every file and folder in SUITE as a submission."),
    ] = False,
    merge: Annotated[
        bool, typer.Option("--merge", help="Merge the results of the shards of a cohort.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            help="The number of processes for a cohort; by default one per core.",
        ),
    ] = None,
    submission_limit: Annotated[
        float,
        typer.Option(
            "--submission-limit",
            metavar="SECONDS",
            min=1.0,
            help="The time limit for one submission of a cohort.",
        ),
    ] = 1800.0,
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="K/N", help="Grade only this share of a cohort."),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            "--dask", metavar="ADDRESS", help="Grade a cohort on the cluster of this scheduler."
        ),
    ] = None,
    json: Json = False,
    no_cache: NoCache = False,
) -> int:
    """Run a suite on correct engines and on every break, confined, as its author is unknown."""
    session = Session(breaks, engine, json=json, cached=not no_cache)
    if merge or cohort:
        from harness.cli.cohort import (
            CohortOptions,
            CohortResults,
            engine_argument,
            grade_submissions,
            merge_shards,
        )
        from harness.grade.cohort.suites import SuiteOptions
        from harness.grade.mutants import select as selected

        results = open_results(
            session.catalogue.valid_pages(),
            feedback=feedback,
            weights=weights,
            form=form,
            verbose=verbose,
            say=_language(session, lang) if form == "html" else None,
        )
        shown = CohortResults(results, session, feedback=bool(feedback or form))
        if merge:
            return merge_shards(suites, out, shown)
        results.weights.require_some(selected(session.catalogue, select))
        graded = SuiteOptions(
            breaks=[str(folder.resolve()) for folder in breaks or ()],
            engine=engine_argument(engine),
            selection=select,
            correct=correct,
            allow_conftest=allow_conftest,
            limit=limit,
            cached=not no_cache,
            hidden=[str(folder.resolve()) for folder in (*suites, *([out] if out else []))],
        )
        secret = seed.encode() if seed is not None else None
        chosen = CohortOptions(workers, shard, dask, submission_limit, secret)
        return grade_submissions(suites, out, chosen, graded.opening, shown)
    if len(suites) > 1:
        raise UsageError(
            "several suites need --cohort", "put them into one folder, and add --cohort"
        )
    if shard is not None or dask is not None:
        raise UsageError("--shard and --dask are about a cohort", "add --cohort")
    from dataclasses import replace

    from harness.grade.grading import grade_suite, require_suite
    from harness.grade.plan import LIMITS, plan_grading
    from harness.report.bar import ProgressBar

    (suite,) = suites
    require_suite(suite)
    pages = session.catalogue.valid_pages()
    results = open_results(
        pages,
        feedback=feedback,
        weights=weights,
        form=form,
        out=out,
        json=json,
        verbose=verbose,
        say=_language(session, lang) if form == "html" else None,
    )
    limits = replace(LIMITS, cpu_seconds=limit, seconds=3.0 * limit)
    plan: GradingPlan = plan_grading(
        session.catalogue,
        session.engine,
        session.cache,
        selection=select,
        correct=correct,
        seed=seed.encode() if seed is not None else None,
        limits=limits,
        allow_conftest=allow_conftest,
        stages=results.feedback != "score",
    )
    results.weights.require_some(mutant.page for mutant in plan.breaks)
    with ProgressBar() as bar:
        report = grade_suite(suite, plan, bar.watch)
    results.show(report, session.console, pages, session.engine.root)
    return 0 if report.gradable else 1


def _language(session: Session, code: str | None) -> Language:
    """Return the language of HTML, with the titles of the pages that are translated."""
    from dataclasses import replace

    there = replace(session, lang=code)
    if there.language.code == "en":
        return there.language
    titled = ((page, there.titled(page)) for page in session.catalogue.valid_pages())
    titles = {page.title: shown.title for page, shown in titled if shown is not page}
    return there.language.with_translations(titles)
