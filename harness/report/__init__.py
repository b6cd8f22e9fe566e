"""Reports in every format: on the terminal, as JSON, and in files that a user asks for.

A renderer is imported when it is needed, since most of them are slow to import.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from harness.core.errors import EnvironmentProblem
from harness.core.files import unwritable
from harness.core.message import as_text, message, visible

if TYPE_CHECKING:
    from harness.report.terminal import Screen

RENDERERS: Mapping[str, str] = {
    "Report": "one_screen:show_report",
    "TrainingReport": "full:show_training",
    "MythReport": "pages:show_myth",
    "ExerciseReport": "tasks:show_exercise",
    "PageCheck": "pages:show_check",
    "Matrix": "matrix:show_matrix",
    "Diagnosis": "doctor:show_diagnosis",
}
"""The renderer, as `module:function` below `harness.report`, by the name of the report's type: a
command imports only the one that it needs."""


def show(console: Screen, report: object, **details: object) -> None:
    """Print a report; `details` are arguments of its renderer besides the report."""
    module, _, function = RENDERERS[type(report).__name__].partition(":")
    renderer = getattr(import_module(f"harness.report.{module}"), function)
    renderer(console, report, **details)


def to_json(thing: Any) -> str:
    """Return a report or a listing as indented JSON; messages become English, NaN and inf null.

    Schema 1: keys may be added, never renamed.
    Invisible characters in its strings, which could control a terminal, are escaped.
    """
    text = msgspec.json.format(msgspec.json.encode(thing, enc_hook=as_text), indent=2).decode()
    return visible(text, escape=lambda character: json.dumps(character)[1:-1])


def markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[str] = ()
) -> list[str]:
    """Return the lines of a table in Markdown; the columns with these `numbers` are on the right.

    Cells hold Markdown. They may contain `|`, but each is put on one line.
    """
    rule = ["---:" if column in numbers else "---" for column in head]
    escaped = ([" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows)
    return [f"| {' | '.join(line)} |" for line in (head, rule, *escaped)]


def require_writable(file: Path) -> None:
    """Raise EnvironmentProblem if `write_file` clearly cannot write the file."""
    if file.is_dir():
        raise unwritable(file, message("it is a folder"))
    if not file.parent.is_dir():
        raise unwritable(file, message("there is no folder {folder}", folder=file.parent))
    special = file.exists() and not file.is_file()  # a pipe or a device is not replaced
    needed = [file] if file.exists() else []
    needed += [] if special else [file.resolve().parent]
    if not all(os.access(path, os.W_OK) for path in needed):
        raise unwritable(file, message("permission denied"))


def html_room(name: str) -> ModuleType:
    """Return a module that makes HTML. Raises EnvironmentProblem if Jinja2 is not installed."""
    try:
        return import_module(f"harness.report.html.{name}")
    except ModuleNotFoundError as error:
        if error.name not in ("jinja2", "markupsafe"):
            raise
        raise EnvironmentProblem(
            "HTML needs Jinja2, which is not installed", "pip install 'breaklab[html]'"
        ) from None
