"""`forward`: the probe's output against PyTorch's, in shape and value.

The only check of the forward pass itself: finite differences compare the gradient with what the
engine computes, right or wrong. The output may differ by rounding, in the engine's precision, times
the condition of the probe, which is measured with two forward passes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from harness.core.measurement import MeasurementForm, Quantity
from harness.core.message import Kind, message
from harness.core.run import Measured, Run
from harness.core.vocabulary import Alarm, Declined, Skipped, Verdict
from harness.diagnostics.diagnostic import ArrayPair, Diagnostic, Observation, Scale, compare
from harness.diagnostics.differences import output_noise

if TYPE_CHECKING:
    from harness.runs.trial import Trial


def measure(trial: Trial, run: Run) -> Measured:
    """Measure the rounding error of the output."""
    return Measured(numbers={"noise": output_noise(trial, run)})


def check(observation: Observation) -> Verdict:
    """Alarm if the output and PyTorch's differ."""
    answer, run = observation.independent["torch"], observation.run
    assert not isinstance(answer, Skipped)
    assert run.output is not None
    assert answer.output is not None
    actual, expected = run.output.numpy(), answer.output.numpy()
    swallowed = (
        int(np.sum(np.isnan(expected) & ~np.isnan(actual))) if actual.shape == expected.shape else 0
    )
    if swallowed:  # A comparison skips NaN, but an op that turns it into a number hides an error.
        return Alarm(
            message(
                "the output holds a number where PyTorch gives nan ({count} of {size})",
                count=swallowed,
                size=expected.size,
            )
        )
    if expected.size and np.isnan(actual).all() and np.isnan(expected).all():
        return Declined(message("the output is NaN"))
    noise = run.measured["forward"].numbers["noise"]
    pair = ArrayPair(message(Kind.OUTPUT), actual, expected, noise)
    scale = replace(Scale.of(run), may_cancel=False)
    return compare([pair], message("PyTorch gives"), scale)


FORWARD = Diagnostic(
    name="forward",
    sees="a forward pass that is wrong, whether or not the backward pass matches it",
    blind="wrong gradients; probes that PyTorch cannot run",
    cost="5, and one run of PyTorch per probe",
    passes=lambda _: 5,
    check=check,
    measure=measure,
    form=MeasurementForm(numbers=(Quantity("noise"),)),
    library="torch",
)
