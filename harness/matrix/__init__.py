"""The kill matrix: breaks x diagnostics, who catches whom with which probe, and what follows.

`build_matrix` turns what was tried into one record. Nothing here runs an engine but `gather`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.matrix import analysis, catches, controls
from harness.matrix.cover import smallest_cover
from harness.matrix.expected import ACCEPT, Committed, remember
from harness.matrix.frontier import frontier
from harness.matrix.record import BreakRow, ControlRow, Difference, Matrix
from harness.matrix.trials import Size, Trials, Tried

__all__ = ["Matrix", "Size", "Trials", "Tried", "build_matrix"]


def build_matrix(
    trials: Trials,
    *,
    committed: Mapping[str, Committed] | None = None,
    differences: Sequence[Difference] | None = None,
    seconds: float = 0.0,
) -> Matrix:
    """Everything that follows from `trials`.

    `committed` are the rows that were last accepted and `differences` what is not as they say;
    both None where nothing is committed.
    """
    skipped = analysis.skipped_diagnostics(trials)
    rows = [remember(row, committed or {}, skipped) for row in analysis.break_rows(trials)]
    held, variants = controls.control_rows(trials), controls.variant_rows(trials)
    false_alarms = [*trials.clean, *controls.no_op_alarms(trials)]
    false_alarms += [alarm for row in variants for alarm in row.alarms]
    pairs = catches.all_catches(trials)
    by_diagnostic = catches.by_diagnostic(pairs)
    passes, elements = analysis.total_passes(trials), catches.probe_elements(trials)
    by_pair = catches.by_pair(pairs)
    problems = _problems(rows, held, differences)
    return Matrix(
        schema=1,
        engine=trials.engine,
        agrees=not problems,
        problems=problems,
        controls=held,
        diagnostics=analysis.diagnostic_rows(trials, rows, false_alarms, passes),
        skipped=skipped,
        breaks=rows,
        families=analysis.family_rows(rows),
        variants=variants,
        clean=list(trials.clean),
        probe_set=smallest_cover(catches.by_probe(pairs), elements),
        diagnostic_set=smallest_cover(by_diagnostic, passes),
        pair_set=smallest_cover(by_pair, catches.pair_passes(by_pair, trials)),
        frontier=frontier(by_diagnostic, passes, len(pairs)),
        differences=None if differences is None else list(differences),
        seconds=round(seconds, 3),
    )


def _problems(
    rows: Sequence[BreakRow],
    held: Sequence[ControlRow],
    differences: Sequence[Difference] | None,
) -> list[str]:
    """What is not as it should be, the gravest first: without its controls no matrix counts."""
    problems = [
        f"the control `{row.control}` does not hold: {row.problems[0]}"
        + (f" (and {len(row.problems) - 1} more)" if row.problems[1:] else "")
        for row in held
        if row.problems
    ]
    problems += [row.problem for row in rows if row.problem]
    if differences:
        breaks = len({difference.break_ for difference in differences})
        problems.append(
            f"{breaks} {'break is' if breaks == 1 else 'breaks are'} not as committed; "
            f"once that is understood, `{ACCEPT}` accepts it"
        )
    return problems
