"""Comparing the matrix with the committed ones, and committing a new one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from harness.core.errors import EnvironmentProblem, NotAccepted
from harness.core.message import message
from harness.core.vocabulary import headline
from harness.matrix.analysis import break_row
from harness.matrix.build import build_matrix
from harness.matrix.committed import (
    Committed,
    commit_row,
    compare,
    read_committed,
    write_committed,
)
from harness.matrix.controls import control_rows
from harness.matrix.evaluation import Evaluation, Evaluations
from harness.matrix.plan import Entry, Plan
from harness.matrix.records import BreakRow, Difference, Matrix


def judge_matrix(plan: Plan, evaluations: Evaluations, seconds: float) -> Matrix:
    """Return the matrix, compared with the committed ones.

    Raises PageError for a committed matrix that cannot be read.
    """
    all_committed: dict[str, Committed] = {}
    differences: list[Difference] | None = None
    at_home = {} if plan.choice.engine.foreign else _rows_at_home(plan, evaluations)
    tables = {root: read_committed(file) for root, file in plan.choice.committed_files.items()}
    if any(table is not None for table in tables.values()):
        differences = []
        for root, rows in at_home.items():
            committed = tables[root] or {}
            # If only some breaks were evaluated, the others still have a page.
            evaluated = {row.break_ for row in rows}
            gone = sorted(committed.keys() - evaluated) if root in plan.choice.complete else []
            differences += compare(rows, committed, evaluations.skipped, gone)
            all_committed |= committed
    return build_matrix(
        evaluations,
        committed=all_committed,
        differences=differences,
        survivors={row.break_ for rows in at_home.values() for row in rows if row.survived},
        seconds=seconds,
    )


def accept(plan: Plan, evaluations: Evaluations) -> list[Path]:
    """Commit what was observed, and return the files that changed.

    Raises NotAccepted if a control fails, EnvironmentProblem if a diagnostic could not run
    or a file cannot be written.
    """
    controls = control_rows(evaluations)
    violated = [f"`{row.control}`: {problem}" for row in controls for problem in row.problems]
    if violated:
        raise NotAccepted(
            message("not accepted: a control fails: {violated}", violated=violated[0]),
            "`harness matrix` shows all of them; a matrix counts only if they pass",
        )
    for name, reason in evaluations.skipped.items():
        raise EnvironmentProblem(
            message("not accepted: {name} could not run: {reason}", name=name, reason=reason),
            "install what is missing; a matrix without it would lose what it catches",
        )
    changed = []
    for root, rows in _rows_at_home(plan, evaluations).items():
        file = plan.choice.committed_files[root]
        before = read_committed(file)
        after = {} if root in plan.choice.complete else dict(before or {})
        after |= {row.break_: commit_row(row) for row in rows}
        if after != (before or {}):
            write_committed(file, after)
            changed.append(file)
    return changed


def _rows_at_home(plan: Plan, evaluations: Evaluations) -> dict[Path, list[BreakRow]]:
    """Return the rows of each catalogue root, without probes and diagnostics of other folders."""
    rows: dict[Path, list[BreakRow]] = {root: [] for root in plan.choice.committed_files}
    for entry, evaluation in zip(plan.breaks, evaluations.breaks, strict=True):
        elsewhere = plan.choice.catalogue.diagnostics_elsewhere(entry.page)
        at_home = _at_home(entry, evaluation, elsewhere)
        rows[entry.root].append(break_row(at_home, evaluations))
    return rows


def _at_home(entry: Entry, evaluation: Evaluation, elsewhere: frozenset[str]) -> Evaluation:
    runs = [run for run in evaluation.report.runs if run.probe not in entry.foreign]
    report = msgspec.structs.replace(
        evaluation.report, runs=runs, headline=headline({run.outcome for run in runs})
    )
    return replace(evaluation, report=report.without(elsewhere))
