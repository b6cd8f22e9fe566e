"""Controls: conditions that a matrix must meet before it counts.

No diagnostic raises an alarm on the unpatched engine, on a correct rewrite of it, or on a patch
that changes nothing, whose outcome is disguised-correct everywhere. Every diagnostic raises one on
an engine that is wrong everywhere. And every diagnostic that can run has run.
"""

from __future__ import annotations

from harness.core.report import Report, RunReport
from harness.matrix.analysis import skipped_diagnostics
from harness.matrix.evaluation import Evaluations
from harness.matrix.records import ControlRow, FalseAlarm, VariantRow


def variant_rows(evaluations: Evaluations) -> list[VariantRow]:
    """Return the alarms on each correct rewrite, except on runs that differ by convention.

    An alarm that also occurs on the clean engine is counted there, not again for each variant.
    """
    return [
        VariantRow(
            evaluation.name,
            [
                alarm
                for run in evaluation.report.runs
                if run.outcome != "convention"
                for alarm in _alarms(run, evaluation.name)
            ],
        )
        for evaluation in evaluations.variants
    ]


def _alarms(run: RunReport, where: str) -> list[FalseAlarm]:
    return [
        FalseAlarm(where, name, run.probe, run.loss, str(message))
        for name, message in run.alarms.items()
    ]


def no_op_alarms(evaluations: Evaluations) -> list[FalseAlarm]:
    """Return the alarms on the patch that changes nothing."""
    control = _control(evaluations, evaluations.conventions.controls.no_op)
    if control is None:
        return []
    return [alarm for run in control.runs for alarm in _alarms(run, control.break_)]


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
    return [
        clean,
        *(
            ControlRow(
                row.variant, f"{silent} on this correct rewrite", [*map(_format, row.alarms)]
            )
            for row in variant_rows(evaluations)
        ),
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


def _control(evaluations: Evaluations, name: str | None) -> Report | None:
    reports = (control.report for control in evaluations.controls if control.name == name)
    return next(reports, None)


def _missing(key: str, name: str | None) -> str:
    if name is None:
        return f"no catalogue.toml names a control `{key}`"
    return f"the catalogue has no control `{name}`"


def _no_op(evaluations: Evaluations) -> list[str]:
    name = evaluations.conventions.controls.no_op
    control = _control(evaluations, name)
    if control is None:
        return [_missing("no_op", name)]
    problems = [
        f"{run.probe}{_loss(run.loss)}: {run.outcome}: {run.evidence}"
        for run in control.runs
        if run.outcome not in ("disguised-correct", "not-reached")
    ]
    if not any(run.outcome == "disguised-correct" for run in control.runs):
        problems.append("no probe runs the patched code, so the control shows nothing")
    return problems + [_format(alarm) for alarm in no_op_alarms(evaluations)]


def _sabotage(evaluations: Evaluations) -> list[str]:
    name = evaluations.conventions.controls.sabotage
    control = _control(evaluations, name)
    if control is None:
        return [_missing("sabotage", name)]
    skipped = skipped_diagnostics(evaluations)
    caught = {name for run in control.runs for name in run.caught_by}
    names = [diagnostic.name for diagnostic in evaluations.diagnostics]
    blind = [name for name in names if name not in caught and name not in skipped]
    return [f"{name} raises no alarm on any probe" for name in blind]


def _not_run(evaluations: Evaluations) -> list[str]:
    """Return the diagnostics that did not run although they need no library."""
    skipped = skipped_diagnostics(evaluations)
    return [
        f"{diagnostic.name} never ran: {skipped[diagnostic.name]}"
        for diagnostic in evaluations.diagnostics
        if diagnostic.library is None and diagnostic.name in skipped
    ]


def _format(alarm: FalseAlarm) -> str:
    return f"{alarm.diagnostic} on {alarm.probe}{_loss(alarm.loss)}: {alarm.message}"


def _loss(loss: str | None) -> str:
    return f", {loss}" if loss else ""
