"""A grade as JSON, for programs. Schema 1: keys may be added, never renamed."""

from __future__ import annotations

from harness.grade.feedback import Grade
from harness.report import to_json


def render(grade: Grade) -> str:
    """Return the grade as indented JSON."""
    return to_json(grade)
