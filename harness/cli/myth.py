"""`harness myth ID`: show a claim, and run the program that tests it."""

from __future__ import annotations

from harness.cli.options import Breaks, Json, Lang, PageId
from harness.cli.session import Session
from harness.core.errors import EnvironmentProblem
from harness.core.message import message


def myth(page: PageId, lang: Lang = None, breaks: Breaks = None, json: Json = False) -> int:
    """Read a claim from teaching material, and run the program that tests it."""
    session = Session(breaks, lang=lang, json=json)
    claim = session.page(page, "myth")
    shown = session.translated(claim)
    if not json:
        from harness.report.myth import show_claim

        show_claim(session.console, shown, claim)
    with session.busy():
        from harness.check.runner import run_page
        from harness.experiment.myth import MythReport, find_exhibit, missing_library

    report = session.run(lambda: run_page(claim, session))
    assert isinstance(report, MythReport)
    session.show(report, page=shown, original=claim)
    if session.is_interactive and not report.skipped:
        from harness.learn.events import PageFinished

        session.journal.record(PageFinished(page=claim.id))
    session.show_next(claim)
    if missing := missing_library(find_exhibit(claim).program):
        raise EnvironmentProblem(
            message("the program was not run: {problem}", problem=missing.sentences[0]),
            missing.sentences[1],
        )
    return 0 if report.agrees else 1
