"""`harness show ID`: show a page."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.options import Breaks, EngineName, Json, Lang, PageId
from harness.cli.session import Session, page_entry, print_json


def show(
    page: PageId,
    engine: EngineName = None,
    lang: Lang = None,
    breaks: Breaks = None,
    json: Json = False,
    answer: Annotated[
        bool, typer.Option("--answer", help="Also show the answer of an exercise.")
    ] = False,
) -> int:
    """Read a page in the terminal; an exercise without its answer."""
    session = Session(breaks, engine, lang=lang, json=json)
    original = session.page(page)
    shown = session.translated(original)
    is_translated = shown is not original
    if original.front.kind == "exercise" and not answer:
        from harness.grade.exercise import without_answer

        shown = without_answer(shown, original)
    if json:
        print_json({"schema": 1, **page_entry(shown), "markdown": shown.body})
        return 0
    from harness.report.terminal import show_diff, show_page

    show_page(session.console, shown, translated=is_translated)
    if engine is not None:
        from harness.check.runner import prepare_page

        experiment = prepare_page(original, session.context_for(original))
        show_diff(session.console, experiment.diff, experiment.sites)
    return 0
