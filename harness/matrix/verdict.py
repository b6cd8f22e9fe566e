"""From evaluations to the matrix, compared with the committed one; and committing a new one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from harness.core.errors import EnvironmentProblem, NotAccepted
from harness.core.message import message
from harness.core.vocabulary import headline
from harness.matrix.analysis import (
    break_row,
    break_rows,
    control_rows,
    diagnostic_rows,
    family_rows,
    variant_rows,
)
from harness.matrix.committed import (
    ACCEPT,
    Committed,
    commit_row,
    compare,
    read_committed,
    with_committed,
    write_committed,
)
from harness.matrix.evaluation import Evaluation, Evaluations
from harness.matrix.plan import Entry, Plan
from harness.matrix.records import BreakRow, ControlRow, Difference, Matrix


def build_matrix(
    evaluations: Evaluations,
    *,
    committed: Mapping[str, Committed] | None = None,
    differences: Sequence[Difference] | None = None,
    survivors: Collection[str] = (),
    seconds: float = 0.0,
) -> Matrix:
    """Return everything that follows from the evaluations.

    Parameters
    ----------
    evaluations : Evaluations
        The evaluation of each page.
    committed : mapping of str to Committed, optional
        The rows that were last accepted, by break; None if nothing is committed.
    differences : sequence of Difference, optional
        Where the rows differ from the committed ones; None if nothing is committed.
    survivors : collection of str
        The breaks that survive their own catalogue: a pardon holds although the diagnostic of
        another one catches them.
    seconds : float
        The time that the evaluation took.
    """
    rows = [
        with_committed(row, committed or {}, evaluations.skipped) for row in break_rows(evaluations)
    ]
    controls = control_rows(evaluations)
    new = [
        row.break_
        for row in rows
        if differences is not None and row.break_ not in (committed or {})
    ]
    problems = _problems(rows, controls, differences, new, survivors)
    if evaluations.engine.foreign and not any(row.judged for row in rows):
        name = evaluations.engine.name
        problems.append(
            f"nothing was judged: on {name}, no probe gives the right result and runs these breaks"
        )
    return Matrix(
        schema=1,
        engine=evaluations.engine,
        agrees=not problems,
        problems=problems,
        controls=controls,
        diagnostics=diagnostic_rows(evaluations, rows),
        skipped=evaluations.skipped,
        breaks=rows,
        families=family_rows(rows),
        variants=variant_rows(evaluations),
        clean=list(evaluations.clean),
        differences=None if differences is None else list(differences),
        new=new,
        seconds=seconds,
        repeatable=all(page.report.repeatable for page in evaluations.everything),
    )


def _problems(
    rows: Sequence[BreakRow],
    controls: Sequence[ControlRow],
    differences: Sequence[Difference] | None,
    new: Collection[str],
    survivors: Collection[str],
) -> list[str]:
    """Return what is wrong, the most serious first: if a control fails, no matrix counts."""
    problems = [
        f"the control `{row.control}` fails: {row.problems[0]}"
        + (f" (and {len(row.problems) - 1} more)" if row.problems[1:] else "")
        for row in controls
        if row.problems
    ]
    problems += [
        row.problem for row in rows if row.problem and not (row.pardon and row.break_ in survivors)
    ]
    if changed := {difference.break_ for difference in differences or ()}.difference(new):
        problems.append(f"{_breaks(changed)} not as committed; once you know why, run `{ACCEPT}`")
    if new:
        accept = "review what catches it, then add `--accept` to the command"
        problems.append(f"{_breaks(new)} new, and in no committed matrix; {accept}")
    return problems


def _breaks(names: Collection[str]) -> str:
    return "1 break is" if len(names) == 1 else f"{len(names)} breaks are"


# ----- The committed matrix -----


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
