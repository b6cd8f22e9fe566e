"""`harness exercise ID [FILE]`: show an exercise, or judge a submission."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import Breaks, EngineName, Json, Lang, NoCache, PageId
from harness.cli.session import Session


def exercise(
    page: PageId,
    probe: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="A Python file with your probe, to be judged."),
    ] = None,
    hints: Annotated[bool, typer.Option("--hints", help="Show the hints.")] = False,
    engine: EngineName = None,
    lang: Lang = None,
    breaks: Breaks = None,
    json: Json = False,
    no_cache: NoCache = False,
) -> int:
    """Read a test suite that misses a break, and write a probe that catches it."""
    from harness.check.runner import run_page
    from harness.grade.exercise import ExerciseReport
    from harness.grade.submission import read_submission

    session = Session(breaks, engine, lang=lang, json=json, cached=not no_cache, explain=True)
    task = session.page(page, "exercise")
    shown = session.translated(task)
    probes = read_submission(probe) if probe else ()
    if not json:
        from harness.report.exercise import show_opening

        show_opening(session.console, shown, task, suite=not probes)
    report = session.run(lambda: run_page(task, session, probes=probes))
    assert isinstance(report, ExerciseReport)
    session.show(report, page=shown, original=task, probes=probes, hints=hints)
    if report.killed:
        session.show_next(task)
    return 0 if (report.killed if probes else report.agrees) else 1
