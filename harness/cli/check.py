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
from harness.core.message import message

if TYPE_CHECKING:
    from harness.check import Finding
    from harness.check.pages import PageCheck
    from harness.core.report import Report
    from harness.pages.page import Page


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
    start = time.perf_counter()
    session = Session([*(breaks or ()), *(only or ())], engine, json=json, strict=False)
    with session.busy():
        from harness.check import worst
        from harness.check.pages import check_pages
        from harness.report.findings import show_left_out, show_summary

    if pages and only:
        remedy = "leave --only out, and name its folder with --breaks"
        raise UsageError(
            message("--only cannot be combined with a page ({page})", page=pages[0]), remedy
        )
    if training and pages:
        remedy = "leave --training out: pages that you name are always checked"
        raise UsageError(
            message("--training cannot be combined with a page ({page})", page=pages[0]), remedy
        )
    ids = tuple(dict.fromkeys(pages or ()))
    if session.engine.foreign and not training:
        return _check_on_engine(session, ids, only or ())
    checks: list[PageCheck] = []
    checking = check_pages(session, ids, training=training, only=only or ())
    for checked in session.each(checking):
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
    reports = [report for checked in checks for report in checked.reports]
    print_json({"schema": 1, "pages": _entries(checks), "reports": reports, "seconds": seconds})


def _entries(checks: Sequence[PageCheck]) -> list[dict[str, object]]:
    return [
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


def _check_on_engine(session: Session, ids: Sequence[str], only: Sequence[Path]) -> int:
    """Check the pages about a foreign engine, and compare the breaks about minigrad with it.

    A difference from a page about minigrad is a failure only if it shows that a patch is not the
    change that its page means.
    """
    from harness.check import worst
    from harness.check.pages import check_page
    from harness.experiment.comparison import breaks_for
    from harness.report.findings import show_nothing_judged

    catalogue, name = session.catalogue, session.engine.name
    inside = catalogue.ids_in(only) if only else catalogue.files.keys()
    chosen = [catalogue.page(page_id) for page_id in ids] or catalogue.valid_pages()
    own = [page.id for page in chosen if page.is_about(name) and page.id in inside]
    checks: list[PageCheck] = []
    for checked in session.each(check_page(page_id, session) for page_id in own):
        checks.append(checked)
        if not session.json:
            session.show(checks[-1])
    others = [page_id for page_id in ids if page_id not in own]
    pages = breaks_for(catalogue, others) if others or not ids else []
    pages = [page for page in pages if page.id in inside and page.id not in own]
    if not (pages or own):
        folders = ", ".join(map(str, only))
        raise UsageError(
            message("no break to compare in {folders}", folders=folders), "`harness new` writes one"
        )
    reports, findings = _compare(session, pages, ids)
    if session.json:
        entries = {"pages": _entries(checks)} if checks else {}
        found = [*(finding for check in checks for finding in check.findings), *findings]
        print_json({"schema": 1, **entries, "reports": reports, "findings": found})
    judged = bool(checks) or any(report.judged for report in reports)
    if not (judged or session.json):
        show_nothing_judged(session.console, name)
    statuses = [check.exit_status for check in checks]
    statuses += [found.exit_status for found in findings]
    return worst([*statuses, 0 if judged else 1])


def _compare(
    session: Session, pages: Sequence[Page], ids: Sequence[str]
) -> tuple[list[Report], list[Finding]]:
    """Compare what pages about minigrad state with what happens on another engine."""
    from harness.check.expectations import check_on_engine
    from harness.experiment.comparison import compare_pages
    from harness.experiment.context import OpenContext
    from harness.report.findings import show_comparison

    reports: list[Report] = []
    findings: list[Finding] = []
    baseline = session.baseline.bare()  # outcomes do not need diagnostics
    context = OpenContext(session.catalogue, session.engine, baseline)
    for page, report in zip(pages, session.each(compare_pages(pages, context)), strict=True):
        reports.append(report)
        new = list(check_on_engine(page, report, named=page.id in ids))
        findings += new
        if not session.json:
            show_comparison(session.console, report, new)
    return reports, findings
