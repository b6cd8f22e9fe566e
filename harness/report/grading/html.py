"""A grade as an HTML file."""

from __future__ import annotations

from harness.grade.feedback import Grade
from harness.report.files import html_room

_room = html_room("reports")  # so that a missing library is noticed before anything is graded


def render(grade: Grade) -> str:
    """Return the HTML of a file."""
    text: str = _room.grade_page(grade)
    return text
