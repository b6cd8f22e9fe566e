"""A grade as the `results.json` of an external grader of PrairieLearn.

The format: https://prairielearn.readthedocs.io/en/latest/externalGrading/
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.core.message import shortened
from harness.grade.feedback import Grade
from harness.report import to_json
from harness.report.grading.rows import GradePart, rows
from harness.report.grading.sentences import refusals
from harness.report.grading.text import lines

LARGEST = 1_000_000
"""The number of bytes that PrairieLearn accepts."""

SHORT = 10_000
"""The number of characters of output in a file that would be too large otherwise."""


def render(grade: Grade) -> str:
    """Return `results.json`; without the list of tests if the file would be too large."""
    if not grade.gradable:
        return to_json({"gradable": False, "format_errors": list(refusals(grade))})
    output = "\n".join(lines(grade))
    text = to_json(_table(grade, output, rows(grade)))
    if len(text.encode()) > LARGEST:
        text = to_json(_table(grade, shortened(output, SHORT), ()))
    return text


def _table(grade: Grade, output: str, listed: Iterable[GradePart]) -> dict[str, Any]:
    assert grade.score is not None  # it is gradable
    return {
        "gradable": True,
        "score": min(1.0, round((grade.points or 0.0) / grade.max_points, 4)),
        "message": f"{grade.killed} of {grade.of} breaks killed",
        "output": output,
        "tests": [
            {
                "name": row.name,
                "description": row.description,
                "points": max(row.points, 0.0),  # a cost is only described
                "max_points": row.max_points,
                "message": row.message,
            }
            for row in listed
        ],
    }
