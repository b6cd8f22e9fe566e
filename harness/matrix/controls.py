"""Controls: conditions that a matrix must meet before it counts.

No diagnostic raises an alarm on the unpatched engine, on a correct rewrite of it, or on a patch
that changes nothing, whose outcome is disguised-correct everywhere. Every diagnostic raises one on
an engine that is wrong everywhere. And every diagnostic that can run has run.
"""

from __future__ import annotations

from harness.core.report import Report
from harness.matrix.evaluation import Evaluations
from harness.matrix.records import ControlRow, FalseAlarm, VariantRow


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
