"""`harness list`: the pages, the probes that they share, or the track for beginners."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.options import Breaks, EngineName, Json, Lang
from harness.cli.session import Session, complain, page_entry, print_json


def list_pages(
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
    """List every break, variant, myth and exercise, or the probes that they share."""
    session = Session(breaks, engine, lang=lang, json=json)
    if probes:
        return _list_probes(session)
    if track:
        return _list_track(session)
    pages, mistakes = session.catalogue.pages
    if engine is not None:
        from harness.experiment.patching import applies

        breaks_only = [page for page in pages if page.front.kind == "break"]
        pages = tuple(page for page in breaks_only if applies(page, session.engine))
    if json:
        print_json({"schema": 1, "pages": [page_entry(page) for page in pages]})
    else:
        from harness.report.listing import show_list

        show_list(session.console, [session.titled(page) for page in pages])
    for mistake in mistakes:
        complain(mistake, session.language)
    return 2 if mistakes else 0


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
    track = session.catalogue.track
    pages = [session.page(page_id) for page_id in track]
    if session.json:
        entries = [{**page_entry(page), "idea": track[page.id]} for page in pages]
        print_json({"schema": 1, "track": entries})
    else:
        from harness.report.listing import show_track

        show_track(session.console, pages, track)
    return 0
