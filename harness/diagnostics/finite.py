"""`finite`: finite leaves give a finite output, and a finite output gives finite gradients.

Only if one is not finite, the forward pass is evaluated again to see whether that is right. An
infinite output is right at a pole (the logarithm of 0): a step away it is finite. An infinite slope
is right where the one-sided slopes grow as the step shrinks (a square root at 0). That costs two
forward passes, and four for each such slope; otherwise, nothing beyond the run. Finite wrong
numbers are not detected, and every engine gets an alarm where a rule multiplies 0 by infinity, as
they all do for `(x * x).sqrt()` at 0. In a log, a value must not become infinite later, unless it
is a leaf's gradient, nor ever be NaN. If the probe itself contains NaN or infinity, the diagnostic
declines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.core.measurement import MeasurementForm, Quantity
from harness.core.message import Kind, Message, message
from harness.core.run import (
    GRAD,
    Array,
    Measured,
    NumericArray,
    Run,
    array_name,
    gradient_name,
    pack,
)
from harness.core.vocabulary import Alarm, Declined, Silent, Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation
from harness.diagnostics.differences import Surroundings, Unmeasurable

if TYPE_CHECKING:
    from harness.runs.trial import Trial

OUTPUT = message(Kind.OUTPUT)

MOST_ELEMENTS = 50
"""The number of non-finite gradient entries that are examined."""


def measure(trial: Trial, run: Run) -> Measured:
    """Measure, for each leaf, 1 where neither the gradient nor the slope is finite.

    If the output is infinite, measure only `pole`: 1 if it is finite a step away.
    """
    if trial.probe.kind == "steps" or all(map(_is_finite, (run.output, *run.gradients.values()))):
        return Measured()
    if not _is_finite(run.output):
        return Measured(numbers={"pole": float(_is_at_a_pole(trial, run))})
    try:
        around = Surroundings(trial, run)
    except Unmeasurable:
        return Measured()
    gradient = around.gradient(run)
    steep = np.zeros_like(around.x)
    if gradient is not None:
        for i in np.flatnonzero(~np.isfinite(gradient))[:MOST_ELEMENTS]:
            steep[i] = around.slope(around.one(int(i))).steep
    return Measured({name: pack(part) for name, part in around.split(steep).items()})


def _is_at_a_pole(trial: Trial, run: Run) -> bool:
    """Whether nothing is NaN, and all is finite after all leaves rise, or fall, by a step."""
    assert run.output is not None
    if np.isnan(run.output.numpy()).any():
        return False
    moved = (
        {name: leaf.numpy() + np.asarray(step, leaf.dtype) for name, leaf in run.leaves.items()}
        for step in (1e-2, -1e-2)
    )
    return any(bool(np.isfinite(trial.output(values)).all()) for values in moved)


def check(observation: Observation) -> Verdict:
    """Alarm at the first NaN or infinity without a reason."""
    run = observation.run
    text_is_finite = not observation.probe.brings_non_finite
    if observation.probe.kind == "steps":
        if text_is_finite:
            return _check_log(run)
        return Declined(message("the probe's text contains numbers that are not finite"))
    if not all(_is_finite(leaf) for leaf in run.leaves.values()):
        return Declined(message("a leaf is not finite"))
    assert run.output is not None
    if not _is_finite(run.output):
        if not text_is_finite:
            return Declined(message("the probe's text contains numbers that are not finite"))
        if run.measured["finite"].numbers.get("pole"):
            return Declined(
                message("the leaves are at a pole, where the output has to be infinite")
            )
        return Alarm(_describe(OUTPUT, run.output.numpy()))
    return _check_gradients(run, run.output.numpy().size)


def _check_gradients(run: Run, compared: int) -> Verdict:
    """Check the gradients; `compared` numbers of the output have been checked."""
    for name, gradient in run.gradients.items():
        if gradient is None:
            continue
        steep = run.measured["finite"].values.get(name)
        allowed = steep is not None and steep.shape == gradient.shape
        wrong = ~np.isfinite(gradient.numpy())
        if allowed and steep:
            wrong &= steep.numpy() == 0
        if wrong.any():
            return Alarm(_describe(gradient_name(name), np.where(wrong, gradient.numpy(), 0.0)))
        compared += int(np.isfinite(gradient.numpy()).sum())
    return Silent(compared) if compared else Declined(message("there is nothing to compare"))


def _check_log(run: Run) -> Verdict:
    """Alarm at a NaN, or at an infinity that was not there in the previous step.

    A gradient of a leaf may become infinite: an adaptive loss scale then skips the step.
    """
    was_finite: dict[str, bool] = {}
    compared = 0
    for step, snapshot in enumerate(run.logged):
        entries = run.log[step] if step < len(run.log) else {}
        for name, array in snapshot.items():
            may_overflow = name.endswith(GRAD) and name not in entries
            infinite = was_finite.get(name, False) and not (may_overflow or _is_finite(array))
            if infinite or np.isnan(array.numpy()).any():
                problem = _describe(array_name(name), array.numpy())
                return Alarm(message("{problem} after step {step}", problem=problem, step=step))
            was_finite[name] = _is_finite(array)
            compared += was_finite[name] and bool(array.data)
    if not was_finite:
        return Alarm(message("the log is empty"))
    return Silent(compared) if compared else Declined(message("no number in the log is finite"))


def _is_finite(array: Array | None) -> bool:
    return array is None or bool(np.isfinite(array.numpy()).all())


def _describe(name: Message, array: NumericArray) -> Message:
    wrong = array[~np.isfinite(array)]
    if array.size == 1:
        return message("{array} holds {value}", array=name, value=wrong[0])
    return message(
        "{array} holds {value} ({count} of {size} numbers are not finite)",
        array=name,
        value=wrong[0],
        count=wrong.size,
        size=array.size,
    )


FINITE = Diagnostic(
    name="finite",
    sees="NaN and infinity where the leaves and the slopes are finite",
    blind="wrong numbers that are finite",
    check=check,
    measure=measure,
    form=MeasurementForm(
        (Quantity("{leaf}", required=False),), (Quantity("pole", required=False),)
    ),
    kinds=("gradient", "steps"),
)
