"""`harness explain [WORD]`: the glossary."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.options import Json, Lang
from harness.cli.session import Session, print_json


def explain(
    word: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORD",
            help="An outcome, a stage, a diagnostic or another term; all by default.",
        ),
    ] = None,
    lang: Lang = None,
    json: Json = False,
) -> int:
    """Explain a word that reports and pages use."""
    from harness.report.glossary import find_entry, read_glossary, show_entry, show_glossary

    session = Session(lang=lang, json=json)
    if word:
        entry = find_entry(" ".join(word), session.language)
        if json:
            print_json({"schema": 1, "entry": entry})
        else:
            show_entry(session.console, entry)
        return 0
    entries = read_glossary(session.language)
    if json:
        print_json({"schema": 1, "entries": list(entries.values())})
    else:
        show_glossary(session.console, entries)
    return 0
