"""A suite's grade in every format: a terminal, JSON, JUnit XML, Gradescope, PrairieLearn, SARIF."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Literal, get_args

from harness.core.errors import EnvironmentProblem, UsageError
from harness.core.message import Message, message, verbatim
from harness.grade.feedback import Feedback, Grade

Format = Literal["text", "json", "junit", "gradescope", "prairielearn", "sarif"]
FORMATS: tuple[Format, ...] = get_args(Format)

FOR_STUDENTS: tuple[Format, ...] = ("gradescope", "prairielearn")
"""The formats that students read, unless their instructor arranges it otherwise."""


def default_feedback(form: Format) -> Feedback:
    """Return the feedback that a format shows by default."""
    return "stage" if form in FOR_STUDENTS else "names"


def renderer(form: Format, feedback: Feedback) -> Callable[[Grade], str]:
    """Return the function that renders a grade in a format; available before anything is graded.

    Raises UsageError if the format shows more than this feedback, and EnvironmentProblem if it
    needs a library that is not installed.
    """
    if form == "sarif" and feedback != "names":
        problem = message(
            "SARIF shows where each break is, which the feedback `{feedback}` hides",
            feedback=feedback,
        )
        raise UsageError(problem, "choose the feedback `names`, or another format")
    module = import_module(f"harness.report.grading.{form}")  # only the format that is needed
    render: Callable[[Grade], str] = module.render
    return render


def render(grade: Grade, form: Format) -> str:
    """Return a grade in a format, with a line end. Raises what `renderer` raises."""
    return renderer(form, grade.feedback)(grade).rstrip("\n") + "\n"


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
