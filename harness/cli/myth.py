"""`harness myth ID`: show a claim, and run the program that tests it."""

from __future__ import annotations

from harness.cli.options import Breaks, Json, PageId
from harness.cli.session import Session
from harness.core.errors import EnvironmentProblem


def myth(page: PageId, breaks: Breaks = None, json: Json = False) -> int:
    """Read a claim from teaching material, and run the program that tests it."""
    from harness.check.runner import run_page
    from harness.experiment.myth import MythReport, find_exhibit, missing_library

    session = Session(breaks, json=json)
    claim = session.page(page, "myth")
    if not json:
        from harness.report.myth import show_claim

        show_claim(session.console, claim)
    report = session.run(lambda: run_page(claim, session))
    assert isinstance(report, MythReport)
    session.show(report)
    if session.is_interactive and not report.skipped:
        from harness.learn.events import Finished

        session.journal.record(Finished(page=claim.id))
    session.show_next(claim)
    if missing := missing_library(find_exhibit(claim).program):
        raise EnvironmentProblem(f"the program was not run: {missing.problem}", missing.remedy)
    return 0 if report.agrees else 1
