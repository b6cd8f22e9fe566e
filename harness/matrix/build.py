"""From evaluations to the matrix: rows, controls, smallest sets and the frontier in one record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.matrix import analysis, catches, controls
from harness.matrix.committed import ACCEPT, Committed, with_committed
from harness.matrix.cover import smallest_cover
from harness.matrix.evaluation import Evaluations
from harness.matrix.frontier import frontier
from harness.matrix.records import BreakRow, ControlRow, Difference, Matrix


def build_matrix(
    evaluations: Evaluations,
    *,
    committed: Mapping[str, Committed] | None = None,
    differences: Sequence[Difference] | None = None,
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
    seconds : float
        The time that the evaluation took.
    """
    skipped = analysis.skipped_diagnostics(evaluations)
    rows = [
        with_committed(row, committed or {}, skipped) for row in analysis.break_rows(evaluations)
    ]
    control_rows, variants = controls.control_rows(evaluations), controls.variant_rows(evaluations)
    false_alarms = [*evaluations.clean, *controls.no_op_alarms(evaluations)]
    false_alarms += [alarm for row in variants for alarm in row.alarms]
    pairs = catches.all_catches(evaluations)
    by_diagnostic = catches.by_diagnostic(pairs)
    passes, elements = analysis.total_passes(evaluations), catches.probe_elements(evaluations)
    by_pair = catches.by_pair(pairs)
    problems = _problems(rows, control_rows, differences)
    return Matrix(
        schema=1,
        engine=evaluations.engine,
        agrees=not problems,
        problems=problems,
        controls=control_rows,
        diagnostics=analysis.diagnostic_rows(evaluations, rows, false_alarms, passes),
        skipped=skipped,
        breaks=rows,
        families=analysis.family_rows(rows),
        variants=variants,
        clean=list(evaluations.clean),
        probe_set=smallest_cover(catches.by_probe(pairs), elements),
        diagnostic_set=smallest_cover(by_diagnostic, passes),
        pair_set=smallest_cover(by_pair, catches.pair_passes(by_pair, evaluations)),
        frontier=frontier(by_diagnostic, passes, len(pairs)),
        differences=None if differences is None else list(differences),
        seconds=round(seconds, 3),
    )


def _problems(
    rows: Sequence[BreakRow],
    controls: Sequence[ControlRow],
    differences: Sequence[Difference] | None,
) -> list[str]:
    """Return what is wrong, the most serious first: if a control fails, no matrix counts."""
    problems = [
        f"the control `{row.control}` fails: {row.problems[0]}"
        + (f" (and {len(row.problems) - 1} more)" if row.problems[1:] else "")
        for row in controls
        if row.problems
    ]
    problems += [row.problem for row in rows if row.problem]
    if differences:
        breaks = len({difference.break_ for difference in differences})
        problems.append(
            f"{breaks} {'break is' if breaks == 1 else 'breaks are'} not as committed; "
            f"once you know why, run `{ACCEPT}`"
        )
    return problems
