"""Other reports as HTML files: a kill matrix, grades of a suite and of a class, a diagnosis."""

from __future__ import annotations

from collections.abc import Mapping

from harness.core.message import Message, message
from harness.doctor.diagnosis import Diagnosis
from harness.grade.cohort.tally import Tally
from harness.grade.feedback import Grade
from harness.matrix.records import Matrix
from harness.report.cohort import STYLE_NAMES, class_page, median
from harness.report.doctor import HEADINGS, how_it_works, likeness_of, place_of, root_of
from harness.report.grading.platforms import rows
from harness.report.grading.text import exclusions, notes, refusals
from harness.report.html.document import fill
from harness.report.language import ENGLISH, Language
from harness.report.matrix import LEGEND, SIGNS


def matrix_page(matrix: Matrix, say: Language = ENGLISH) -> str:
    """Return a kill matrix as a grid, survivors first."""
    engine = matrix.engine
    on: str | Message = engine.name
    if engine.variant:
        on = message("{engine} with {variant}", engine=engine.name, variant=engine.variant)
    return fill(
        "matrix.html",
        say("Kill matrix of {engine}", engine=on),
        say,
        matrix=matrix,
        signs=SIGNS,
        legend=LEGEND,
    )


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


def cohort_page(tally: Tally, titles: Mapping[str, str], say: Language = ENGLISH) -> str:
    """Return who misses each break, and the scores of a class; `titles` are those of the breaks."""
    return fill(
        "cohort.html",
        say("Results of a cohort"),
        say,
        page=class_page(tally),
        titles=titles,
        styles=STYLE_NAMES,
        median=median,
    )


def diagnosis_page(diagnosis: Diagnosis, say: Language = ENGLISH) -> str:
    """Return everything that the doctor found."""
    return fill(
        "diagnosis.html",
        diagnosis.engine,
        say,
        diagnosis=diagnosis,
        headings=HEADINGS,
        notes=how_it_works(diagnosis),
        findings=[
            (defect, root_of(defect), place_of(defect), likeness_of(defect))
            for defect in diagnosis.defects
        ],
    )
