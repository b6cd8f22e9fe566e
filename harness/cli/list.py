"""`harness list [WORD]`: the pages, the probes that they share, or the track for beginners."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import Breaks, EngineName, Json, Lang, require_one
from harness.cli.session import Session, complain, page_entry, print_json
from harness.core.message import message

if TYPE_CHECKING:
    from harness.pages.page import Page

NOT_TO_DO = ("variant", "control")
"""The kinds of pages that serve the harness; learners need not do them."""


def list_pages(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORD]...", help="Only pages with these words in their id, family or title."
        ),
    ] = None,
    family: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only the pages of this family.")
    ] = None,
    level: Annotated[str | None, typer.Option(metavar="N", help="Only this level, 1 to 3.")] = None,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="Only breaks, myths, and so on.")
    ] = None,
    todo: Annotated[bool, typer.Option("--todo", help="Only what you have not done.")] = False,
    engine: EngineName = None,
    lang: Lang = None,
    breaks: Breaks = None,
    json: Json = False,
    probes: Annotated[
        bool, typer.Option("--probes", help="List the probes that pages share instead.")
    ] = False,
    track: Annotated[
        bool, typer.Option("--track", help="List the pages for beginners, in order.")
    ] = False,
) -> int:
    """List breaks, variants, myths and exercises, or the probes that they share."""
    if probes or track:
        filters = {"WORD": words or None, "--family": family, "--level": level, "--kind": kind}
        shown = {"--probes": probes, "--track": track, "--todo": todo, "--engine": engine}
        require_one({**shown, **filters}, message("leave one out"))
    session = Session(breaks, engine, lang=lang, json=json)
    if probes:
        return _list_probes(session)
    if track:
        return _list_track(session)
    done = session.progress.done
    pages, mistakes = session.catalogue.pages
    if engine is not None:
        from harness.experiment.patching import applies

        breaks_only = [page for page in pages if page.front.kind == "break"]
        pages = tuple(page for page in breaks_only if applies(page, session.engine))
    pages = _with_value(pages, "family", family, lambda page: page.front.family)
    pages = _with_value(pages, "level", level, lambda page: str(page.front.level))
    pages = _with_value(pages, "kind", kind, lambda page: page.front.kind)
    pages = _with_words(pages, words or ())
    if todo:
        left = (page for page in pages if page.front.kind not in NOT_TO_DO)
        pages = tuple(page for page in left if page.id not in done)
    if json:
        entries = [{**page_entry(page), "done": page.id in done} for page in pages]
        print_json({"schema": 1, "pages": entries})
    elif todo and not pages:
        session.console.print(session.console.say("There is nothing left to do here."))
    else:
        from harness.report.listing import show_list

        show_list(session.console, [session.titled(page) for page in pages], done)
    for mistake in mistakes:
        complain(mistake, session.language)
    return 2 if mistakes else 0


def _with_value(
    pages: Iterable[Page], what: str, wanted: str | None, value_of: Callable[[Page], str]
) -> tuple[Page, ...]:
    """Return the pages with this value, or all pages if it is None.

    Raises UsageError, with the nearest values, if no page has it.
    """
    pages = tuple(pages)
    if wanted is None:
        return pages
    values = sorted({value_of(page) for page in pages})
    chosen = tuple(page for page in pages if value_of(page) in (wanted, wanted.removesuffix("s")))
    if not chosen:
        from harness.pages.catalogue import unknown

        remedy = message("--{option} takes {values}", option=what, values=", ".join(values))
        raise unknown(what, wanted, values, remedy)
    return chosen


def _with_words(pages: tuple[Page, ...], words: Sequence[str]) -> tuple[Page, ...]:
    """Return the pages that have all words in id, family or title.

    Raises UsageError, with the nearest ids, if there is none.
    """
    chosen = tuple(
        page
        for page in pages
        if all(
            word.casefold() in f"{page.id} {page.front.family} {page.title}".casefold()
            for word in words
        )
    )
    if words and not chosen:
        from harness.pages.catalogue import unknown

        ids = [page.id for page in pages]
        raise unknown("page with", " ".join(words), ids, "`harness list` shows all pages")
    return chosen


def _list_probes(session: Session) -> int:
    shared = list(session.catalogue.shared_probes.values())
    if session.json:
        entries = [{"name": p.name, "kind": p.kind, "doc": p.doc, "path": p.path} for p in shared]
        print_json({"schema": 1, "probes": entries})
    else:
        from harness.report.listing import show_probes

        show_probes(session.console, shared)
    return 0


def _list_track(session: Session) -> int:
    track, done = session.catalogue.track, session.progress.done
    pages = [session.page(page_id) for page_id in track]
    if session.json:
        entries = [
            {**page_entry(page), "idea": track[page.id], "done": page.id in done} for page in pages
        ]
        print_json({"schema": 1, "track": entries})
    else:
        from harness.report.listing import show_track

        show_track(session.console, pages, track, done)
    return 0
