"""Files that a user asks for: whether one can be written, and writing it."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from types import ModuleType

from harness.core.errors import EnvironmentProblem
from harness.core.message import Message, message, verbatim


def require_writable(file: Path) -> None:
    """Raise EnvironmentProblem if results clearly cannot be written to a file."""
    if file.is_dir():
        raise _unwritable(file, message("it is a folder"))
    if not file.parent.is_dir():
        why = message("there is no folder {folder}", folder=file.parent)
        raise _unwritable(file, why)
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise _unwritable(file, message("permission denied"))


def write(text: str, file: Path) -> None:
    """Write the text of a format. Raises EnvironmentProblem if the file cannot be written."""
    try:
        file.write_text(text, encoding="utf-8", newline="\n")
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise _unwritable(file, verbatim(str(error))) from None


def _unwritable(file: Path, why: Message) -> EnvironmentProblem:
    problem = message("the results cannot be written to {file}: {error}", file=file, error=why)
    return EnvironmentProblem(problem, "name a file in a folder that exists and is writable")


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
