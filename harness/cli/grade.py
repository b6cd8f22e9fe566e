"""`harness grade SUITE`: grade a test suite that one does not trust."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import Breaks, EngineName, Json, NoCache
from harness.cli.session import Session, print_json

if TYPE_CHECKING:
    from harness.grade.plan import GradingPlan


def grade(
    suite: Annotated[
        Path, typer.Argument(metavar="SUITE", help="A file with tests, or a folder of them.")
    ],
    select: Annotated[
        str,
        typer.Option(
            "--select",
            metavar="SELECTION",
            help="Breaks: ids, family:NAME, level:N, track or all, separated by commas.",
        ),
    ] = "all",
    correct: Annotated[
        list[str] | None,
        typer.Option(
            "--correct", metavar="VARIANT", help="A variant that the tests must pass; repeatable."
        ),
    ] = None,
    engine: EngineName = None,
    breaks: Breaks = None,
    seed: Annotated[
        str | None,
        typer.Option("--seed", metavar="TEXT", help="The secret of the rewrites; keep it so."),
    ] = None,
    allow_conftest: Annotated[
        bool, typer.Option("--allow-conftest", help="Load the suite's own conftest.py files.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="SECONDS", min=1, help="Processor time of one run.")
    ] = 20,
    json: Json = False,
    no_cache: NoCache = False,
) -> int:
    """Run a suite on correct engines and on every break, confined, as its author is unknown."""
    from dataclasses import replace

    from harness.grade.grading import grade_suite
    from harness.grade.plan import LIMITS, plan_grading
    from harness.report.suite import as_table, lines

    session = Session(breaks, engine, json=json, cached=not no_cache)
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
    )
    report = grade_suite(suite, plan, _show_progress)
    if json:
        print_json(as_table(report))
    else:
        for line in lines(report):
            print(line)
    return 0 if report.gradable else 1


def _show_progress(done: int, of: int) -> None:
    """Show on a terminal how many breaks are done."""
    if sys.stderr.isatty():
        end = "\n" if done == of else ""
        print(f"\rbreaks: {done} of {of}", end=end, file=sys.stderr, flush=True)
