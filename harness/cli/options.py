"""The options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from harness.core.errors import UsageError
from harness.core.message import Message, all_of, message, verbatim

ONE_BY_ONE = message("run one after the other")


def require_one(options: Mapping[str, object], remedy: Message = ONE_BY_ONE) -> None:
    """Raise UsageError with this remedy if more than one of these options is set."""
    names = [
        verbatim(n) for n, value in options.items() if value is not None and value is not False
    ]
    if len(names) > 1:
        raise UsageError(message("{options} cannot be combined", options=all_of(names)), remedy)


def complete_id(incomplete: str) -> list[str]:
    """Return the ids that begin with what was typed, for the shell's completion."""
    from harness.pages.catalogue import open_catalogue

    return [name for name in open_catalogue().files if name.startswith(incomplete)]


PageId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The id of a page; `harness list` shows them.",
        autocompletion=complete_id,
    ),
]
Breaks = Annotated[
    list[Path] | None,
    typer.Option("--breaks", metavar="DIR", help="A folder with more pages; may be repeated."),
]
Only = Annotated[
    list[Path] | None,
    typer.Option("--only", metavar="DIR", help="Only the pages in this folder; may be repeated."),
]
VariantId = Annotated[
    str | None,
    typer.Option("--on", metavar="VARIANT", help="Put the break into this variant of the engine."),
]
EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="Another engine: `module:Class`, `path/to/tensor.py:Class`, or a harness.toml.",
    ),
]
HtmlFile = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Also write an HTML file.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Run everything, and store nothing.")]
Lang = Annotated[
    str | None,
    typer.Option(
        "--lang", metavar="CODE", help="The language, such as `es`; by default that of the locale."
    ),
]
HtmlLang = Annotated[
    str | None,
    typer.Option(
        "--lang",
        metavar="CODE",
        help="The language of HTML and of errors, such as `es`; by default that of the locale.",
    ),
]
ErrorLang = Annotated[
    str | None,
    typer.Option(
        "--lang",
        metavar="CODE",
        help="The language of help and errors, such as `es`; by default that of the locale.",
    ),
]
Probes = Annotated[
    list[str] | None,
    typer.Option("--probe", metavar="NAME", help="Run only this probe; may be repeated."),
]
