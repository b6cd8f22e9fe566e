"""The parts of a grade that a learning platform lists with points: breaks, or else levels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.grade.feedback import Grade
from harness.report.grading.sentences import exclusions, sentence


@dataclass(frozen=True)
class GradePart:
    """One part of a grade."""

    name: str
    description: str
    message: str
    points: float
    max_points: float


def rows(grade: Grade) -> Iterator[GradePart]:
    """Yield one row per break if breaks may be named, else one row per level.

    Of a suite that is graded without some tests, the first row is what they cost, so that the
    points of all rows add up to those of the suite.
    """
    if grade.partial:
        earned = sum(score.points for score in grade.levels.values())
        cost = round((grade.points or 0.0) - earned, 6)
        yield GradePart(
            "Tests that fail on a correct engine", "", " ".join(exclusions(grade)), cost, 0.0
        )
    if grade.feedback != "names":
        for level, score in grade.levels.items():
            message = f"{score.killed} of {score.of} breaks killed"
            yield GradePart(f"Level {level}", "", message, score.points, score.max_points)
    for shown in (grade.breaks or ()) if grade.feedback == "names" else ():
        if shown.fate != "does-not-apply":
            yield GradePart(
                f"{shown.break_}",
                shown.title or "",
                sentence(shown),
                shown.points or 0.0,
                shown.max_points or 0.0,
            )
