"""`harness matrix [ID]...`: every break with every diagnostic."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from harness.cli.options import (
    Breaks,
    EngineName,
    HtmlFile,
    HtmlLang,
    Json,
    NoCache,
    Only,
    VariantId,
    require_one,
)
from harness.cli.session import CommandSession, print_json
from harness.core.errors import UsageError
from harness.core.message import message
from harness.sandbox.signals import Terminated

if TYPE_CHECKING:
    from harness.matrix.evaluation import Evaluations
    from harness.matrix.plan import Choice, Plan
    from harness.matrix.records import Matrix


def show_kill_matrix(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Breaks; all by default.")
    ] = None,
    family: Annotated[
        str | None, typer.Option("--family", metavar="F", help="Only the breaks of this family.")
    ] = None,
    engine: EngineName = None,
    on: VariantId = None,
    breaks: Breaks = None,
    only: Only = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Commit the observed matrix as the expected one.")
    ] = False,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write Markdown; - prints it.")
    ] = None,
    html: HtmlFile = None,
    lang: HtmlLang = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show how each diagnostic catches each break.")
    ] = False,
    no_cache: NoCache = False,
    json: Json = False,
) -> int:
    """Run every break with every diagnostic, and compare with the committed matrix."""
    from harness.core.files import write_file
    from harness.matrix.plan import choose
    from harness.report import html_room, require_writable
    from harness.report.language import open_language
    from harness.report.matrix import to_markdown

    to_pipe = {"--json": json, "--markdown -": markdown == Path("-")}
    require_one(to_pipe, message("leave one out"))
    say = open_language(lang)
    for file in (markdown, html):
        if file and (file, file) != (markdown, Path("-")):
            require_writable(file)
    if html:
        reports = html_room("reports")
    start = time.perf_counter()
    folders = [*(breaks or ()), *(only or ())]
    session = CommandSession(folders, engine, on, json=json, cached=not no_cache)
    if session.engine.foreign and accept:
        name = session.engine.name
        raise UsageError(
            message("no matrix is committed for {name}", name=name), "leave --accept out"
        )
    choice = choose(
        session.catalogue,
        session.engine,
        on=on,
        ids=ids or (),
        family=family,
        only=only or (),
    )
    matrix, accepted = _cached_matrix(session, choice, start) if not accept else None, None
    if matrix is None:
        matrix, accepted = _evaluated_matrix(session, choice, start, accept)
    if json:
        print_json(matrix)
    elif markdown != Path("-"):
        _show(session, matrix, accepted, only or (), verbose=verbose)
    if markdown == Path("-"):
        print(to_markdown(matrix), end="")
    elif markdown:
        write_file(markdown, to_markdown(matrix))
    if html:
        write_file(html, reports.matrix_page(matrix, say))
    if session.engine.foreign:  # its survivors are a result, and not a failure
        misplaced = any(row.fate == "misplaced" for row in matrix.breaks)
        return 0 if any(row.judged for row in matrix.breaks) and not misplaced else 1
    return 0 if matrix.agrees else 1


def _show(
    session: CommandSession,
    matrix: Matrix,
    accepted: list[Path] | None,
    only: Sequence[Path],
    *,
    verbose: bool,
) -> None:
    from harness.report.matrix import show_accepted
    from harness.report.pages import show_left_out

    if accepted is not None:
        show_accepted(session.console, accepted)
    session.show(matrix, verbose=verbose)
    show_left_out(session.console, session.catalogue, only)


def _cached_matrix(session: CommandSession, choice: Choice, start: float) -> Matrix | None:
    """Return the cached matrix, with the time this took, if nothing it depends on has changed."""
    from harness.matrix.evaluation import MATRICES

    key = choice.matrix_key
    cached = session.cache.get(MATRICES, [key]).get(key)
    return msgspec.structs.replace(cached, seconds=_seconds(start)) if cached else None


def _evaluated_matrix(
    session: CommandSession, choice: Choice, start: float, accept: bool
) -> tuple[Matrix, list[Path] | None]:
    """Return the matrix, and the files that `--accept` has written."""
    from harness.matrix import verdict
    from harness.matrix.evaluation import MATRICES
    from harness.matrix.plan import plan_matrix

    plan = plan_matrix(choice, session.cache)
    evaluations = _evaluate_all(session, plan)
    accepted = verdict.accept(plan, evaluations) if accept else None
    matrix = verdict.judge_matrix(plan, evaluations, _seconds(start))
    session.cache.put(MATRICES, {choice.matrix_key: matrix})
    return matrix, accepted


def _seconds(start: float) -> float:
    return round(time.perf_counter() - start, 3)


def _evaluate_all(session: CommandSession, plan: Plan) -> Evaluations:
    """Run the plan with a progress line. If it is interrupted, print how much was finished."""
    from harness.experiment.baseline import Baseline
    from harness.matrix.plan import evaluate_all
    from harness.report.terminal import ProgressBar

    total = len(plan.entries)
    with ProgressBar() as bar:
        try:
            baseline = Baseline(session.cache, select=True, own=session.own_diagnostics)
            return evaluate_all(
                plan, baseline, progress=lambda done, page: bar.watch(done, total, page)
            )
        except (KeyboardInterrupt, Terminated) as request:
            done = f"{bar.done} of {total} pages were finished"
            rest = " and are stored: the same command continues from there"
            print(f"harness: stopped; {done}{rest if session.cached else ''}", file=sys.stderr)
            if isinstance(request, Terminated):
                request.reported = True
                raise
            raise typer.Exit(130) from None
