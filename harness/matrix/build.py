"""From evaluations to the matrix: rows and controls in one record."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from harness.matrix import analysis
from harness.matrix.committed import ACCEPT, Committed, with_committed
from harness.matrix.controls import control_rows, variant_rows
from harness.matrix.evaluation import Evaluations
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
        with_committed(row, committed or {}, evaluations.skipped)
        for row in analysis.break_rows(evaluations)
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
        diagnostics=analysis.diagnostic_rows(evaluations, rows),
        skipped=evaluations.skipped,
        breaks=rows,
        families=analysis.family_rows(rows),
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
