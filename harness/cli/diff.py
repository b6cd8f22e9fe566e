"""`harness diff ID`: the patch of a page, put into the engine's code."""

from __future__ import annotations

from harness.cli.options import Breaks, EngineName, Json, PageId, VariantId
from harness.cli.session import Session, print_json


def diff(
    page: PageId,
    engine: EngineName = None,
    on: VariantId = None,
    breaks: Breaks = None,
    json: Json = False,
) -> int:
    """Show what a page changes in the engine's own code."""
    session = Session(breaks, engine, on, json=json)
    broken = session.page(page)
    with session.busy():
        from harness.check.runner import prepare_page
        from harness.report.terminal import show_diff

        experiment = prepare_page(broken, session.context_for(broken), session.variant)
    if json:
        sites, text = experiment.sites, experiment.diff
        print_json({"schema": 1, "break": page, "sites": sites, "diff": text})
    else:
        show_diff(session.console, experiment.diff, experiment.sites)
    return 0
