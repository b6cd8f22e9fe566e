"""`harness check [ID]...`: check that pages are true."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import Breaks, EngineName, Json, Only
from harness.cli.session import Session, print_json
from harness.core.errors import UsageError

if TYPE_CHECKING:
    from harness.check.pages import PageCheck


def check(
    pages: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Pages; all by default.")
    ] = None,
    engine: EngineName = None,
    breaks: Breaks = None,
    only: Only = None,
    training: Annotated[
        bool, typer.Option("--training", help="Check only the pages that need many seeds.")
    ] = False,
    json: Json = False,
) -> int:
    """Check that pages are true, on the engine and on every variant that they name."""
    from harness.check.pages import check_pages
    from harness.core.finding import worst
    from harness.report.findings import show_left_out, show_summary

    start = time.perf_counter()
    session = Session([*(breaks or ()), *(only or ())], engine, json=json)
    if pages and only:
        remedy = "leave --only out, and name its folder with --breaks"
        raise UsageError(f"--only cannot be combined with a page ({pages[0]})", remedy)
    if training and pages:
        remedy = "leave --training out: pages that you name are always checked"
        raise UsageError(f"--training cannot be combined with a page ({pages[0]})", remedy)
    if session.engine.foreign and not training:
        return _compare(session, pages or (), only or ())
    checks: list[PageCheck] = []
    for checked in check_pages(session, pages or (), training=training, only=only or ()):
        checks.append(checked)
        if not json:
            session.show(checked)
    seconds = round(time.perf_counter() - start, 3)
    if json:
        _print_checks(checks, seconds)
    else:
        if not (pages or training):
            show_left_out(session.console, session.catalogue, only or ())
        show_summary(session.console, checks, seconds)
    return worst(checked.exit_status for checked in checks)


def _print_checks(checks: Sequence[PageCheck], seconds: float) -> None:
    entries = [
        {
            "page": checked.page,
            "path": checked.path,
            "holds": checked.holds,
            "engines": [report.engine for report in checked.reports],
            "findings": checked.findings,
            "seconds": checked.seconds,
        }
        for checked in checks
    ]
    reports = [report for checked in checks for report in checked.reports]
    print_json({"schema": 1, "pages": entries, "reports": reports, "seconds": seconds})


def _compare(session: Session, ids: Sequence[str], only: Sequence[Path]) -> int:
    """Compare breaks on a foreign engine with what their pages state for minigrad.

    A difference is a failure only if it shows that a patch is not the change that its page means.
    """
    from harness.check.expectations import check_on_engine
    from harness.core.finding import Finding, worst
    from harness.experiment.baseline import Baseline
    from harness.experiment.comparison import breaks_for, compare_pages
    from harness.experiment.context import OpenContext
    from harness.report.findings import show_comparison, show_nothing_judged

    reports, findings = [], list[Finding]()
    baseline = Baseline(session.cache, diagnostics=())  # not needed for outcomes
    context = OpenContext(session.catalogue, session.engine, baseline)
    inside = session.catalogue.ids_in(only) if only else session.catalogue.files.keys()
    pages = [page for page in breaks_for(session.catalogue, ids) if page.id in inside]
    if not pages:
        folders = ", ".join(map(str, only))
        raise UsageError(f"no break to compare in {folders}", "`harness new` writes one")
    for page, report in zip(pages, compare_pages(pages, context), strict=True):
        reports.append(report)
        new = list(check_on_engine(page, report, named=page.id in ids))
        findings += new
        if not session.json:
            show_comparison(session.console, report, new)
    judged = any(report.judged for report in reports)
    if session.json:
        print_json({"schema": 1, "reports": reports, "findings": findings})
    elif not judged:
        show_nothing_judged(session.console, session.engine.name)
    return worst([*(finding.exit_status for finding in findings), 0 if judged else 1])
