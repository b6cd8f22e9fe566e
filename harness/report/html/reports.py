"""Other reports as HTML files: a kill matrix, a suite's grade, a diagnosis of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.core.message import EMPTY, Message, either, message, verbatim
from harness.doctor.defects import Defect
from harness.doctor.diagnosis import Diagnosis
from harness.grade.feedback import Grade
from harness.matrix.records import BreakRow, Matrix
from harness.report.doctor_facts import accumulation, root_of, storage, unbroadcasting
from harness.report.grading.rows import rows
from harness.report.grading.sentences import exclusions, notes, refusals
from harness.report.html.document import fill
from harness.report.language import ENGLISH, Language


@dataclass(frozen=True)
class Cell:
    """A break and a diagnostic: the sign, and what is behind it."""

    kind: Literal["caught", "sole", "missed", "declined", "unasked"]
    sign: str
    probes: Sequence[str] = ()
    """The probes with which the break is caught."""
    text: str | Message = ""
    """The alarm on the first of them, or why the diagnostic could not judge."""


@dataclass(frozen=True)
class GridRow:
    """A break in the grid."""

    name: str
    fate: str
    cells: Sequence[Cell]


def matrix_page(matrix: Matrix, say: Language = ENGLISH) -> str:
    """Return a kill matrix as a grid, survivors first."""
    ran = [row.name for row in matrix.diagnostics if row.name not in matrix.skipped]
    engine = matrix.engine
    on: str | Message = engine.name
    if engine.variant:
        on = message("{engine} with {variant}", engine=engine.name, variant=engine.variant)
    return fill(
        "matrix.html",
        say("Kill matrix of {engine}", engine=on),
        say,
        matrix=matrix,
        caught=sum(bool(row.caught_by) for row in matrix.breaks),
        ran=ran,
        rows=[
            GridRow(row.break_, row.fate, [_cell(row, name) for name in ran])
            for row in matrix.breaks
        ],
    )


def _cell(row: BreakRow, name: str) -> Cell:
    if probes := row.caught_by.get(name):
        alarm = row.messages.get(name, "")
        if len(row.caught_by) == 1:
            return Cell("sole", "★", probes, alarm)
        return Cell("caught", "●", probes, alarm)
    if name in row.missed_by:
        return Cell("missed", "·")
    if name in row.declined:
        return Cell("declined", "?", text=row.declined[name])
    return Cell("unasked", "")


def grade_page(grade: Grade, say: Language = ENGLISH) -> str:
    """Return what may be shown of a suite's grade."""
    groups = [(say("level {level}", level=level), score) for level, score in grade.levels.items()]
    groups += list(grade.families.items()) if grade.families else []
    return fill(
        "grade.html",
        say("Grade of {suite}", suite=", ".join(grade.suite)),
        say,
        grade=grade,
        refusals=[] if grade.gradable else list(refusals(grade)),
        exclusions=list(exclusions(grade)),
        notes=list(notes(grade)),
        scores=groups,
        rows=list(rows(grade)) if grade.feedback == "names" else [],
    )


def diagnosis_page(diagnosis: Diagnosis, say: Language = ENGLISH) -> str:
    """Return everything that the doctor found."""
    return fill(
        "diagnosis.html",
        diagnosis.engine,
        say,
        diagnosis=diagnosis,
        notes=[
            (say("Storage"), list(storage(diagnosis))),
            (say("How gradients are accumulated"), list(accumulation(diagnosis))),
            (say("Un-broadcasting"), list(unbroadcasting(diagnosis))),
        ],
        findings=[(root_of(defect), defect, _likeness(defect)) for defect in diagnosis.defects],
    )


def _likeness(defect: Defect) -> Message:
    """Return which breaks behave like a defect."""
    if not defect.alike:
        return EMPTY
    breaks = either(verbatim(f"`{item.break_}`") for item in defect.alike)
    return message("behaves like {breaks}", breaks=breaks)
