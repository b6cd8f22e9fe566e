"""Files that a user asks for: whether one can be written."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from types import ModuleType

from harness.core.errors import EnvironmentProblem
from harness.core.files import unwritable
from harness.core.message import message


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
