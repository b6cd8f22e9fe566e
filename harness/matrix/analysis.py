"""What follows from reports on many breaks: rows, recall, cost, witnesses, and the controls."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from harness.core.message import Message
from harness.core.report import Report, RunReport
from harness.matrix.evaluation import Evaluation, Evaluations, reasons, verdicts_on
from harness.matrix.records import (
    BreakFate,
    BreakRow,
    ControlRow,
    DiagnosticRow,
    FalseAlarm,
    FamilyRow,
    VariantRow,
    Witness,
    by_family,
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
    for family, members in by_family(rows):
        counts: dict[str, int] = defaultdict(int)
        for row in members:
            for name in row.caught_by:
                counts[name] += 1
        caught = sum(bool(row.caught_by) for row in members)
        families.append(FamilyRow(family, len(members), caught, dict(counts), _sole(members)))
    return families


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
    ranked = []
    for run in evaluation.report.runs:
        key = evaluation.probe_key(run.probe)
        size = evaluations.sizes[key]
        for name in run.caught_by:
            cost, margin = evaluations.passes(name, key), run.margins.get(name)
            witness = Witness(
                run.probe, run.loss, name, size.elements, cost, margin, str(run.alarms[name])
            )
            rank = (kinds.index(size.kind), size.elements, cost, run.probe, name, -(margin or 0.0))
            ranked.append((rank, witness))
    return min(ranked, key=lambda pair: pair[0], default=(None, None))[1]


# ----- Controls: conditions that a matrix must meet before it counts -----
#
# No diagnostic raises an alarm on the unpatched engine, on a correct rewrite of it, or on a patch
# that changes nothing, whose outcome is disguised-correct everywhere. Every diagnostic raises one
# on an engine that is wrong everywhere. And every diagnostic that can run has run.


def variant_rows(evaluations: Evaluations) -> list[VariantRow]:
    """Return the alarms on each correct rewrite."""
    names = [evaluation.name for evaluation in evaluations.variants]
    return [VariantRow(name, _alarms(evaluations, name)) for name in names]


def control_rows(evaluations: Evaluations) -> list[ControlRow]:
    """Return the controls, each with its violations.

    A foreign engine has only the first: the others are patches of minigrad.
    """
    silent = "no diagnostic raises an alarm"
    problems = [_format(alarm) for alarm in evaluations.clean]
    clean = ControlRow("clean", f"{silent} on the unpatched engine", problems)
    if evaluations.engine.foreign:
        return [clean]
    controls = evaluations.conventions.controls
    rewrites = [
        ControlRow(row.variant, f"{silent} on this correct rewrite", [*map(_format, row.alarms)])
        for row in variant_rows(evaluations)
    ]
    return [
        clean,
        *rewrites,
        ControlRow(
            controls.no_op or "(no patch that changes nothing)",
            f"a patch that changes nothing has no effect, and {silent}",
            _no_op(evaluations),
        ),
        ControlRow(
            controls.sabotage or "(no engine that is wrong everywhere)",
            "every diagnostic catches an engine that is wrong everywhere",
            _sabotage(evaluations),
        ),
        ControlRow("asked", "every diagnostic that needs no library ran", _not_run(evaluations)),
    ]


def _alarms(evaluations: Evaluations, where: str) -> list[FalseAlarm]:
    return [alarm for alarm in evaluations.false_alarms if alarm.where == where]


def _find(evaluations: Evaluations, key: str, name: str | None) -> Report | str:
    """Return the report on the control that the key of the conventions names, or the problem."""
    if name is None:
        return f"no catalogue.toml names a control `{key}`"
    reports = (control.report for control in evaluations.controls if control.name == name)
    return next(reports, f"the catalogue has no control `{name}`")


def _no_op(evaluations: Evaluations) -> list[str]:
    control = _find(evaluations, "no_op", evaluations.conventions.controls.no_op)
    if isinstance(control, str):
        return [control]
    problems = [
        f"{run.probe}{_loss(run.loss)}: {run.outcome}: {run.evidence}"
        for run in control.runs
        if run.outcome not in ("disguised-correct", "not-reached")
    ]
    if not any(run.outcome == "disguised-correct" for run in control.runs):
        problems.append("no probe runs the patched code, so the control shows nothing")
    return problems + [_format(alarm) for alarm in _alarms(evaluations, control.break_)]


def _sabotage(evaluations: Evaluations) -> list[str]:
    control = _find(evaluations, "sabotage", evaluations.conventions.controls.sabotage)
    if isinstance(control, str):
        return [control]
    caught = {name for run in control.runs for name in run.caught_by}
    names = [diagnostic.name for diagnostic in evaluations.diagnostics]
    blind = [name for name in names if name not in caught and name not in evaluations.skipped]
    return [f"{name} raises no alarm on any probe" for name in blind]


def _not_run(evaluations: Evaluations) -> list[str]:
    """Return the diagnostics that did not run although they need no library."""
    return [
        f"{diagnostic.name} never ran: {evaluations.skipped[diagnostic.name]}"
        for diagnostic in evaluations.diagnostics
        if diagnostic.library is None and diagnostic.name in evaluations.skipped
    ]


def _format(alarm: FalseAlarm) -> str:
    return f"{alarm.diagnostic} on {alarm.probe}{_loss(alarm.loss)}: {alarm.message}"


def _loss(loss: str | None) -> str:
    return f", {loss}" if loss else ""
