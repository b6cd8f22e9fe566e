"""`dtype`: a gradient has the dtype of its leaf, an output the one that NumPy promotes the leaves
to.

A leaf's dtype is the one in which the engine stores it: an engine that computes everything in
float32 is correct. A logged value keeps its first dtype. The only cost beyond the run is creating
the leaves once more. A gradient that was rounded and widened again has the right dtype, and passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.core.measurement import MeasurementForm, Quantity
from harness.core.message import Message, message
from harness.core.run import (
    NUMERIC,
    Array,
    Measured,
    Run,
    array_name,
    gradient_name,
    leaf_name,
    pack,
)
from harness.core.vocabulary import Alarm, Declined, Silent, Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation, check_log
from harness.pages.probe import Probe

if TYPE_CHECKING:
    from harness.runs.trial import Trial


def measure(trial: Trial, run: Run) -> Measured:
    """Return an empty array for each leaf, with the dtype in which the engine stores it."""
    if trial.probe.kind == "steps":
        return Measured()  # the log says it all
    stored = trial.stored(run.values())
    return Measured({name: pack(np.empty(0, value.dtype)) for name, value in stored.items()})


def check(observation: Observation) -> Verdict:
    """Alarm at the first wrong dtype."""
    run = observation.run
    if observation.probe.kind == "steps":
        return check_log(run, _changed_dtype)
    stored = run.leaves | run.measured["dtype"].values  # a created leaf is as the engine stores it
    dtypes = {name: np.dtype(leaf.dtype) for name, leaf in stored.items()}
    if not dtypes or any(dtype.kind != "f" for dtype in dtypes.values()):
        return Declined(message("not every leaf holds floating-point numbers"))
    gradients = {name: np.dtype(g.dtype) for name, g in run.gradients.items() if g}
    for name, dtype in gradients.items():
        if dtype != dtypes[name]:
            return Alarm(
                message(
                    "{gradient} is {actual}, but {leaf} is {expected}",
                    gradient=gradient_name(name),
                    leaf=leaf_name(name),
                    actual=dtype,
                    expected=dtypes[name],
                )
            )
    output = _check_output(observation.probe, run, np.result_type(*dtypes.values()))
    return output or Silent(compared=len(gradients) + 1)


def _check_output(probe: Probe, run: Run, expected: np.dtype[np.generic]) -> Alarm | None:
    """Check that the output is as precise as its leaves, unless the probe adds other numbers."""
    assert run.output is not None
    dtype = np.dtype(run.output.dtype)
    promoted = np.result_type(dtype, expected) == dtype and dtype.kind == "f"
    if dtype == expected or (promoted and probe.brings_numbers):
        return None
    return Alarm(
        message(
            "the output is {actual}, but NumPy promotes the leaves to {expected}",
            actual=dtype,
            expected=expected,
        )
    )


def _changed_dtype(name: str, step: int, array: Array, other: str, before: Array) -> Message | None:
    actual, expected = np.dtype(array.dtype), np.dtype(before.dtype)
    if actual == expected:
        return None
    if other != name:
        return message(
            "{gradient} is {actual} after step {step}, but {leaf} is {expected}",
            gradient=array_name(name),
            actual=actual,
            step=step,
            leaf=leaf_name(other),
            expected=expected,
        )
    return message(
        "{entry} is {actual} after step {step}, but was {expected} before",
        entry=array_name(name),
        actual=actual,
        step=step,
        expected=expected,
    )


DTYPE = Diagnostic(
    name="dtype",
    sees="a gradient, an output or a logged value that loses or gains precision",
    blind="wrong values; numbers that were rounded and widened again",
    check=check,
    measure=measure,
    form=MeasurementForm((Quantity("{leaf}", "0", NUMERIC),), may_be_empty=True),
    kinds=("gradient", "steps"),
)
