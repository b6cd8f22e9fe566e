"""A grade as the `results.json` of an autograder on Gradescope.

The format: https://gradescope-autograders.readthedocs.io/en/latest/specs/
"""

from __future__ import annotations

from harness.grade.feedback import Grade
from harness.report import to_json
from harness.report.grading.rows import rows
from harness.report.grading.text import lines


def render(grade: Grade) -> str:
    """Return `results.json`.

    On Gradescope, every submission has a score: a suite that cannot be graded gets 0 points there,
    its output begins with the reason, and `extra_data` says that it is not gradable.
    """
    table = {
        "score": grade.points or 0.0,
        "execution_time": grade.seconds,
        "output": "\n".join(lines(grade)),
        "stdout_visibility": "hidden",
        "extra_data": {
            "gradable": grade.gradable,
            "killed": grade.killed,
            "of": grade.of,
            "score": grade.score,
        },
        "tests": [
            {
                "name": row.name,
                "score": row.points,
                "max_score": row.max_points,
                "output": f"{row.description}: {row.message}" if row.description else row.message,
            }
            for row in rows(grade)
        ],
    }
    return to_json(table)
