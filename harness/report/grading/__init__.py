"""A suite's grade in every format: text, JSON, HTML, JUnit XML, Gradescope, PrairieLearn, SARIF."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Literal, get_args

from harness.core.errors import UsageError
from harness.core.message import message
from harness.grade.feedback import Feedback, Grade
from harness.report import html_room, to_json
from harness.report.language import ENGLISH, Language

Format = Literal["text", "json", "html", "junit", "gradescope", "prairielearn", "sarif"]
"""The formats of a grade, which shows what its level of feedback allows."""
FORMATS: tuple[Format, ...] = get_args(Format)

SUFFIXES: dict[Format, str] = {
    "text": ".txt",
    "json": ".json",
    "html": ".html",
    "junit": ".xml",
    "gradescope": ".json",
    "prairielearn": ".json",
    "sarif": ".sarif",
}
"""How the names of files in each format end."""

FOR_STUDENTS: tuple[Format, ...] = ("gradescope", "prairielearn")
"""The formats that students read, unless their instructor arranges it otherwise."""

FOR_INSTRUCTORS: tuple[Format, ...] = ("text", "json")
"""The only formats that contain text of a run, with the feedback `names`."""


def default_feedback(form: Format) -> Feedback:
    """Return the feedback that a format shows by default."""
    return "stage" if form in FOR_STUDENTS else "names"


def renderer(form: Format, feedback: Feedback, say: Language = ENGLISH) -> Callable[[Grade], str]:
    """Return the function that renders a grade in a format; available before anything is graded.

    All formats but HTML are in English.
    Raises UsageError if the format shows more than this feedback, and EnvironmentProblem if it
    needs a library that is not installed.
    """
    if form == "sarif" and feedback != "names":
        problem = message(
            "SARIF shows where each break is, which the feedback `{feedback}` hides",
            feedback=feedback,
        )
        raise UsageError(problem, "choose the feedback `names`, or another format")
    if form == "json":
        return to_json
    if form == "html":
        return partial(html_room("reports").grade_page, say=say)
    module, _, function = _RENDERERS[form].partition(":")  # only the format that is needed
    render: Callable[[Grade], str] = getattr(
        import_module(f"harness.report.grading.{module}"), function
    )
    return render


_RENDERERS = {
    "text": "text:render",
    "junit": "junit:to_junit",
    "gradescope": "platforms:to_gradescope",
    "prairielearn": "platforms:to_prairielearn",
    "sarif": "platforms:to_sarif",
}
"""The renderers as `module:function` in this package."""


def render(grade: Grade, form: Format) -> str:
    """Return a grade in a format, with a line end. Raises what `renderer` raises."""
    return renderer(form, grade.feedback)(grade).rstrip("\n") + "\n"
