"""Controls: what must hold before a matrix is believed, and what speaks against it.

The unpatched engine and every correct rewrite: no alarm. A patch that changes nothing: no alarm,
and nothing to see. An engine that is wrong everywhere: every diagnostic must notice. And one on
the diagnostics themselves: who never looked has not passed.
"""

from __future__ import annotations

from harness.core.report import Report, RunReport
from harness.matrix.analysis import skipped_diagnostics
from harness.matrix.evaluation import Evaluations
from harness.matrix.records import ControlRow, FalseAlarm, VariantRow


def variant_rows(evaluations: Evaluations) -> list[VariantRow]:
    """Alarms on each correct rewrite, but where it differs by convention.

    What also fires on the clean engine is counted there, and not once more for every variant.
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
        FalseAlarm(where, name, run.probe, run.loss, message)
        for name, message in run.alarms.items()
    ]


def no_op_alarms(evaluations: Evaluations) -> list[FalseAlarm]:
    """Alarms about the patch that changes nothing."""
    control = _control(evaluations, "no-op")
    return [alarm for run in control.runs for alarm in _alarms(run, "no-op")] if control else []


def control_rows(evaluations: Evaluations) -> list[ControlRow]:
    """What must hold before the matrix is believed, each with what speaks against it.

    A foreign engine has the first of them only: the rewrites and the sabotage are of minigrad.
    """
    silent = "no diagnostic raises an alarm"
    problems = [_format(alarm) for alarm in evaluations.clean]
    clean = ControlRow("clean", f"{silent} about the unpatched engine", problems)
    if evaluations.engine.foreign:
        return [clean]
    return [
        clean,
        *(
            ControlRow(
                row.variant, f"{silent} about this correct rewrite", [*map(_format, row.alarms)]
            )
            for row in variant_rows(evaluations)
        ),
        ControlRow(
            "no-op", f"a patch that changes nothing is disguised, and {silent}", _no_op(evaluations)
        ),
        ControlRow(
            "sabotage",
            "every diagnostic catches an engine that is all wrong",
            _sabotage(evaluations),
        ),
        ControlRow(
            "asked", "every diagnostic that needs no library was asked", _unasked(evaluations)
        ),
    ]


def _control(evaluations: Evaluations, name: str) -> Report | None:
    reports = (control.report for control in evaluations.controls if control.name == name)
    return next(reports, None)


def _no_op(evaluations: Evaluations) -> list[str]:
    control = _control(evaluations, "no-op")
    if control is None:
        return ["the catalogue has no control `no-op`"]
    problems = [
        f"{run.probe}{_loss(run.loss)}: {run.outcome}: {run.evidence}"
        for run in control.runs
        if run.outcome not in ("disguised-correct", "not-reached")
    ]
    if not any(run.outcome == "disguised-correct" for run in control.runs):
        problems.append("no probe runs the patched code, so it shows nothing")
    return problems + [_format(alarm) for alarm in no_op_alarms(evaluations)]


def _sabotage(evaluations: Evaluations) -> list[str]:
    control = _control(evaluations, "sabotage")
    if control is None:
        return ["the catalogue has no control `sabotage`"]
    skipped = skipped_diagnostics(evaluations)
    caught = {name for run in control.runs for name in run.caught_by}
    names = [diagnostic.name for diagnostic in evaluations.diagnostics]
    blind = [name for name in names if name not in caught and name not in skipped]
    return [f"{name} raises no alarm on any probe" for name in blind]


def _unasked(evaluations: Evaluations) -> list[str]:
    """A library may be missing here; a diagnostic that asks none has no such excuse."""
    skipped = skipped_diagnostics(evaluations)
    return [
        f"{diagnostic.name} was never asked: {skipped[diagnostic.name]}"
        for diagnostic in evaluations.diagnostics
        if diagnostic.library is None and diagnostic.name in skipped
    ]


def _format(alarm: FalseAlarm) -> str:
    return f"{alarm.diagnostic} on {alarm.probe}{_loss(alarm.loss)}: {alarm.message}"


def _loss(loss: str | None) -> str:
    return f", {loss}" if loss else ""
