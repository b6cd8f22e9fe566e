"""What is known of a page before it is written: given as options, or asked for on a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import typer

from harness.core.errors import UsageError
from harness.core.vocabulary import PageKind
from harness.pages.page import ID


@dataclass(frozen=True)
class Draft:
    """What is known of a page before it is written."""

    id: str
    family: str
    kind: PageKind = "break"
    level: int = 1
    scope: str = ""
    before: str = ""
    after: str = ""
    probes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise UsageError for an id, a family, a kind or a level that no page could have."""
        for option, word in (("ID", self.id), ("--family", self.family)):
            if not re.fullmatch(ID, word):
                remedy = "lower-case words joined by hyphens, as in `skip-unbroadcast`"
                raise UsageError(f"{option} is `{word}`", remedy)
        if self.level not in (1, 2, 3):
            remedy = "1 (first lesson), 2 or 3 (expert)"
            raise UsageError(f"--level is {self.level}", remedy)
        if self.kind not in get_args(PageKind):
            remedy = f"one of {', '.join(get_args(PageKind))}"
            raise UsageError(f"--kind is `{self.kind}`", remedy)


Given = Mapping[str, Any]
"""The options of `harness new` by the field of the draft; None for one that was not given."""


def read_draft(page_id: str, given: Given) -> Draft:
    """The draft that options describe. Raises UsageError for what is missing or cannot be."""
    known = {name: value for name, value in given.items() if value is not None}
    if "family" not in known:
        remedy = "name the folder it goes to: `--family broadcasting`"
        raise UsageError("--family is missing", remedy)
    if known.get("after") and not known.get("before"):
        remedy = "name the code that is to be changed: `--before CODE`"
        raise UsageError("--before is missing", remedy)
    return Draft(page_id, **known | {"probes": tuple(known.get("probes", ()))})


def ask(given: Given, families: Iterable[str]) -> Given:
    """Ask on the terminal for every option that was not given; Enter takes what is proposed."""
    answers = dict(given)

    def question(name: str, words: str, default: Any = "", kind: type = str) -> None:
        if answers[name] is None:
            shown = default not in ("", None)
            answers[name] = typer.prompt(words, default, show_default=shown, type=kind)

    question("kind", "Kind (break, variant, myth, exercise)", "break")
    question("family", f"Family, the folder it goes to ({', '.join(families)}, ...)", None)
    question("level", "Level, 1 (first lesson) to 3 (expert)", 1, int)
    if answers["kind"] not in ("myth", "exercise"):
        question("before", "The code as it is, in one line (Enter: I write the patch in the page)")
    if answers["before"]:
        question("after", "The code as it shall be")
        question("scope", "Where, such as add.vjp (Enter: in the whole engine)")
        question("probes", "Probes, separated by spaces (Enter: propose those that reach it)")
        if isinstance(answers["probes"], str):
            answers["probes"] = answers["probes"].replace(",", " ").split()
    return answers


def choose_folder(given: Path | None) -> Path:
    """Where pages are written: the folder that was given, or `./breaks`.

    Raises UsageError where there is no such place.
    """
    if given is None and not Path("breaks").is_dir():
        raise UsageError(
            "--breaks is missing, and there is no folder ./breaks",
            "name the folder for your pages: `--breaks my-breaks`; it is made",
        )
    folder = given or Path("breaks")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder", "--breaks takes a folder of pages")
    return folder
