"""A grade as an HTML file."""

from __future__ import annotations

from harness.grade.feedback import Grade
from harness.report import html_room
from harness.report.language import ENGLISH, Language

_room = html_room("reports")  # so that a missing library is noticed before anything is graded


def render(grade: Grade, say: Language = ENGLISH) -> str:
    """Return the HTML of a file."""
    text: str = _room.grade_page(grade, say)
    return text
