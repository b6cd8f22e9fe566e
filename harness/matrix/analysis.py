"""What follows from reports on many breaks: rows, recall, cost and witnesses."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby

from harness.core.message import Message
from harness.core.report import Report, RunReport
from harness.matrix.evaluation import Evaluation, Evaluations, reasons, verdicts_on
from harness.matrix.records import (
    BreakFate,
    BreakRow,
    DiagnosticRow,
    FamilyRow,
    Witness,
)

# ----- Rows ----------------------------------------------------------------------------------


def break_rows(evaluations: Evaluations) -> list[BreakRow]:
    """Return a row for each break: survivors first, then never reached, then by family and id."""
    first: list[BreakFate] = ["survived", "never-reached", "misplaced", "does-not-apply"]
    order = {fate: rank for rank, fate in enumerate(first)}
    rows = [break_row(evaluation, evaluations) for evaluation in evaluations.breaks]
    return sorted(rows, key=lambda row: (order.get(row.fate, 4), row.family, row.break_))


def break_row(evaluation: Evaluation, evaluations: Evaluations) -> BreakRow:
    """Return the row of a break: its fate, and which diagnostics catch it with which probes."""
    runs = evaluation.report.runs
    caught_by: dict[str, list[str]] = {}
    messages: dict[str, Message] = {}
    missed_by: list[str] = []
    declined: dict[str, str] = {}
    unasked: dict[str, str] = {}
    wrong_reason = _wrong_reasons(runs)
    for name in [diagnostic.name for diagnostic in evaluations.diagnostics]:
        catching = [run for run in runs if name in run.caught_by]
        if catching:
            caught_by[name] = list(dict.fromkeys(run.probe for run in catching))
            messages[name] = catching[0].alarms[name]
        elif name in wrong_reason or any(name in run.missed_by for run in runs):
            missed_by.append(name)
        elif reason := reasons(name, [run.declined for run in runs]):
            declined[name] = reason
        elif any(name in verdicts_on(run) for run in runs):
            unasked[name] = NOTHING_WRONG
        else:
            unasked[name] = reasons(name, [run.skipped for run in runs])
    fate = _fate(evaluation.report, bool(caught_by))
    return BreakRow(
        break_=evaluation.name,
        family=evaluation.family,
        headline=evaluation.report.headline,
        fate=fate,
        survived=fate == "survived",
        caught_by=caught_by,
        messages=messages,
        missed_by=missed_by,
        declined=declined,
        unasked=unasked,
        wrong_reason=wrong_reason,
        caught_elsewhere=[],
        witness=smallest_witness(evaluation, evaluations),
        pardon=evaluation.pardon,
        why="" if caught_by else _why(evaluation.report),
    )


NOTHING_WRONG = "nothing is wrong in any run that it judged"
"""Why a diagnostic that looked at a break neither caught nor missed it."""


def _wrong_reasons(runs: Sequence[RunReport]) -> dict[str, str]:
    """Return each diagnostic's first alarm on a wrong run that does not count as a catch."""
    wrong = [run for run in runs if run.outcome in ("silent-corruption", "crash")]
    return {name: str(alarm) for run in wrong[::-1] for name, alarm in run.wrong_reason.items()}


def _fate(report: Report, caught: bool) -> BreakFate:
    if report.misplaced:
        return "misplaced"
    outcomes = {run.outcome for run in report.runs} - {"does-not-apply"}
    if not outcomes:
        return "does-not-apply"
    if outcomes == {"not-reached"}:
        return "never-reached"
    if not caught:
        return "survived"
    return "caught" if "silent-corruption" in outcomes else "crashes-only"


def _why(report: Report) -> str:
    """Return why no diagnostic catches the break, from a run with the headline outcome."""
    if report.misplaced:
        return str(report.misplaced)
    for run in report.runs:
        if run.outcome == report.headline:
            return str(run.why) or str(run.evidence)
    return ""


def family_rows(rows: Sequence[BreakRow]) -> list[FamilyRow]:
    """Return a row for each family: how many breaks are caught, and by which diagnostics."""
    families = []
    for family, group in groupby(sorted(rows, key=_family), key=_family):
        members = list(group)
        counts: dict[str, int] = defaultdict(int)
        for row in members:
            for name in row.caught_by:
                counts[name] += 1
        caught = sum(bool(row.caught_by) for row in members)
        families.append(FamilyRow(family, len(members), caught, dict(counts), _sole(members)))
    return families


def _family(row: BreakRow) -> str:
    return row.family


def _sole(rows: Iterable[BreakRow]) -> dict[str, list[str]]:
    """Return the breaks that only one diagnostic catches, by that diagnostic."""
    sole: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if len(row.caught_by) == 1:
            sole[next(iter(row.caught_by))].append(row.break_)
    return dict(sole)


# ----- Diagnostics ---------------------------------------------------------------------------


def diagnostic_rows(evaluations: Evaluations, rows: Sequence[BreakRow]) -> list[DiagnosticRow]:
    """Return each diagnostic's recall, false alarms, cost, and the breaks that only it catches.

    Recall is relative to the breaks that can be caught: some probe runs their patched code, and
    their page does not pardon their survival.
    """
    catchable = [row for row in rows if row.caught_by or (row.survived and not row.pardon)]
    sole, passes = _sole(rows), total_passes(evaluations)
    diagnostics = []
    for diagnostic in evaluations.diagnostics:
        name = diagnostic.name
        caught = sum(name in row.caught_by for row in rows)
        has_recall = catchable and name not in evaluations.skipped
        diagnostics.append(
            DiagnosticRow(
                name=name,
                cost=diagnostic.cost,
                passes=passes[name],
                caught=caught,
                recall=caught / len(catchable) if has_recall else None,
                false_alarms=sum(alarm.diagnostic == name for alarm in evaluations.false_alarms),
                sole=sole.get(name, []),
            )
        )
    return diagnostics


def total_passes(evaluations: Evaluations) -> dict[str, float]:
    """Return the forward passes of each diagnostic over every probe and loss that it judged."""
    ran: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    for evaluation in evaluations.everything:
        for run in evaluation.report.runs:
            ran[evaluation.probe_key(run.probe), run.loss].update(verdicts_on(run))
    names = [diagnostic.name for diagnostic in evaluations.diagnostics]
    return {
        name: math.fsum(
            evaluations.passes(name, probe) for (probe, _), those in ran.items() if name in those
        )
        for name in names
    }


def smallest_witness(evaluation: Evaluation, evaluations: Evaluations) -> Witness | None:
    """Return the probe with the fewest input elements that shows the break, and its diagnostic.

    A gradient probe counts as smaller than a module probe, and that as smaller than a probe of
    steps, whatever the sizes of their inputs. Of two losses the one with the wider margin is taken.
    """
    kinds = ("gradient", "module", "steps")
    best: tuple[tuple[int, int, float, str, str, float], RunReport] | None = None
    for run in evaluation.report.runs:
        key = evaluation.probe_key(run.probe)
        size = evaluations.sizes[key]
        for name in run.caught_by:
            cost, margin = evaluations.passes(name, key), run.margins.get(name, 0.0)
            rank = (kinds.index(size.kind), size.elements, cost, run.probe, name, -margin)
            if best is None or rank < best[0]:
                best = rank, run
    if best is None:
        return None
    (_, elements, cost, probe, name, _), run = best
    observed = run.margins.get(name)
    return Witness(probe, run.loss, name, elements, cost, observed, str(run.alarms[name]))
