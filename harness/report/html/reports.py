"""Other reports as HTML files: a kill matrix, a suite's grade, a diagnosis of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.doctor.diagnosis import Diagnosis
from harness.grade.feedback import Grade
from harness.matrix.records import BreakRow, Matrix
from harness.report.doctor_summary import heading_of, witness_of
from harness.report.grading.rows import rows
from harness.report.grading.text import lines
from harness.report.html.curves import frontier
from harness.report.html.document import fill


@dataclass(frozen=True)
class Cell:
    """A break and a diagnostic: the sign, and what is behind it."""

    kind: Literal["caught", "sole", "missed", "declined", "unasked"]
    sign: str
    text: str = ""


@dataclass(frozen=True)
class GridRow:
    """A break in the grid."""

    name: str
    fate: str
    cells: Sequence[Cell]


def matrix_page(matrix: Matrix) -> str:
    """Return a kill matrix as a grid, survivors first, with the curve of cost against share."""
    ran = [row.name for row in matrix.diagnostics if row.name not in matrix.skipped]
    engine = matrix.engine
    on = f"{engine.name} with {engine.variant}" if engine.variant else engine.name
    steps = [(step.passes, step.share, ", ".join(step.diagnostics)) for step in matrix.frontier]
    return fill(
        "matrix.html",
        f"Kill matrix of {on}",
        matrix=matrix,
        caught=sum(bool(row.caught_by) for row in matrix.breaks),
        ran=ran,
        rows=[
            GridRow(row.break_, row.fate, [_cell(row, name) for name in ran])
            for row in matrix.breaks
        ],
        frontier=frontier(steps) if steps else "",
    )


def _cell(row: BreakRow, name: str) -> Cell:
    if probes := row.caught_by.get(name):
        others = f" (and {len(probes) - 1} more)" if len(probes) > 1 else ""
        text = f"{probes[0]}{others}: {row.messages.get(name, '')}"
        return Cell("sole", "★", text) if len(row.caught_by) == 1 else Cell("caught", "●", text)
    if name in row.missed_by:
        return Cell("missed", "·")
    if name in row.declined:
        return Cell("declined", "?", row.declined[name])
    return Cell("unasked", "")


def grade_page(grade: Grade) -> str:
    """Return what may be shown of a suite's grade."""
    groups = [(f"level {level}", score) for level, score in grade.levels.items()]
    groups += list(grade.families.items()) if grade.families else []
    text = list(lines(grade, width=10_000))
    return fill(
        "grade.html",
        f"Grade of {', '.join(grade.suite)}",
        grade=grade,
        summary=text[:1] if grade.gradable else text,
        scores=groups,
        rows=list(rows(grade)),
    )


def diagnosis_page(diagnosis: Diagnosis) -> str:
    """Return everything that the doctor found."""
    return fill(
        "diagnosis.html",
        diagnosis.engine,
        diagnosis=diagnosis,
        notes=[
            ("Storage", diagnosis.storage),
            ("How gradients are accumulated", diagnosis.accumulation),
            ("Un-broadcasting", diagnosis.unbroadcasting),
        ],
        findings=[
            (heading_of(defect).plain, witness_of(defect).plain) for defect in diagnosis.defects
        ],
    )
