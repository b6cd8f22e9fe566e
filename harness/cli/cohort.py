"""`harness cohort FOLDER`: grade the test suites of a whole course."""

from __future__ import annotations

import sys
from collections.abc import Mapping
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
from harness.cli.session import Session, print_json
from harness.core.errors import UsageError
from harness.core.message import message
from harness.sandbox.signals import Terminated

if TYPE_CHECKING:
    from harness.cli.results import Results

ResultsFolder = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="The folder for the results.")
]


def cohort(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="Every file and folder in it is graded as a submission."
        ),
    ],
    out: ResultsFolder,
    select: Selection = "all",
    correct: CorrectVariants = None,
    engine: EngineName = None,
    breaks: Breaks = None,
    seed: Seed = None,
    allow_conftest: AllowConftest = True,
    limit: Limit = 20,
    submission_limit: Annotated[
        float,
        typer.Option(
            "--submission-limit",
            metavar="SECONDS",
            min=1.0,
            help="The time limit for one submission.",
        ),
    ] = 1800.0,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            help="The number of processes; by default one per core.",
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="K/N", help="Grade only this share of the submissions."),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option("--dask", metavar="ADDRESS", help="Grade on the cluster of this scheduler."),
    ] = None,
    feedback: FeedbackName = None,
    weights: WeightsFile = None,
    form: FormatName = None,
    lang: HtmlLang = None,
    json: Json = False,
    no_cache: NoCache = False,
) -> int:
    """Grade the test suites of a whole course; the same command continues where it was stopped."""
    from harness.grade.cohort.grader import SuiteOptions
    from harness.grade.cohort.results import WHOLE, parse_shard
    from harness.grade.cohort.run import grade_cohort, local_pool
    from harness.grade.mutants import select as selected
    from harness.report.cohort import CohortProgress
    from harness.sandbox.pool import available_cores

    session = Session(breaks, engine, json=json, cached=not no_cache)
    results = open_results(session, feedback=feedback, weights=weights, form=form, lang=lang)
    results.weights.require_some(selected(session.catalogue, select))
    options = SuiteOptions(
        breaks=[str(path.resolve()) for path in breaks or ()],
        engine=_engine_argument(engine),
        selection=select,
        correct=correct,
        allow_conftest=allow_conftest,
        limit=limit,
        cached=not no_cache,
        hidden=[str(folder.resolve()), str(out.resolve())],
    )
    share = parse_shard(shard) if shard else WHOLE
    pool = local_pool(workers or available_cores(), submission_limit)
    if dask:
        from harness.grade.cohort.dask_pool import dask_pool

        pool = dask_pool(dask, submission_limit)
    with CohortProgress() as progress:
        try:
            roster = grade_cohort(
                folder,
                out,
                options.opening,
                pool,
                shard=share,
                seed=seed.encode() if seed is not None else None,
                progress=progress.watch,
            )
        except (KeyboardInterrupt, Terminated) as request:
            _say_how_to_continue(progress.done, progress.total)
            if isinstance(request, Terminated):
                request.reported = True
                raise
            raise typer.Exit(130) from None
    if share.of > 1:
        print(f"All {progress.total} submissions of shard {shard} are graded.")
        print(f"next, with all {share.of} shards: harness merge {out} ... --out DIR")
        return 0
    return show_cohort(out, roster, results, feedback=bool(feedback or form))


def _engine_argument(name: str | None) -> str | None:
    """Return an engine's name so that it means the same in any folder; None for minigrad."""
    from harness.engines import nearest_settings

    if name is None:
        settings = nearest_settings(Path())
        return None if settings is None else str(settings)
    file, colon, rest = name.partition(":")
    return f"{Path(file).resolve()}{colon}{rest}" if Path(file).is_file() else name


def _say_how_to_continue(done: int, total: int) -> None:
    rest = " and stored: the same command continues from there"
    print(f"harness: stopped; {done} of {total} submissions are graded{rest}", file=sys.stderr)


def show_cohort(out: Path, roster: Mapping[str, str], results: Results, *, feedback: bool) -> int:
    """Write and print the results; return 3 if the grader failed at one, and otherwise 0.

    With `feedback`, also write what each author may see.
    """
    from harness.core.writing import PRIVATE, write_file
    from harness.grade.cohort.tally import tally
    from harness.report.cohort import as_table, summary, to_csv, to_markdown

    result = tally(out, roster, results.weights)
    if result.missing:
        names = ", ".join(result.missing[:3]) + (" ..." if len(result.missing) > 3 else "")
        problem = message(
            "{count} of {total} submissions have no result: {names}",
            count=len(result.missing),
            total=len(roster),
            names=names,
        )
        remedy = "grade the shards that they belong to, and merge all of them again"
        raise UsageError(problem, remedy)
    write_file(out / "scores.csv", to_csv(result), PRIVATE)
    write_file(out / "missed.md", to_markdown(result), PRIVATE)
    files = ["scores.csv", "missed.md"]
    if feedback:
        files.append(f"feedback/ ({_write_feedback(out, roster, results)} files)")
    if results.session.json:
        print_json(as_table(result))
    else:
        for line in summary(result):
            print(line)
        print(f"Written to {out}: {', '.join(files)}")
    if result.failed:
        print(
            f"harness: the grader failed at {len(result.failed)} of them; "
            "the same command tries these again",
            file=sys.stderr,
        )
    return 3 if result.failed else 0


def _write_feedback(out: Path, roster: Mapping[str, str], results: Results) -> int:
    """Write a file for each submission, and return their number. Raises EnvironmentProblem."""
    from harness.grade.cohort.results import feedback_file
    from harness.grade.cohort.tally import results_in
    from harness.report.grading import SUFFIXES

    written = 0
    for result in results_in(out, roster):
        file = feedback_file(out, result.submission, SUFFIXES[results.form])
        results.write(results.disclosed(result.report, to_student=True), file)
        written += 1
    return written
