"""`forward`: the probe's output against PyTorch's, in shape and value.

The only check of the forward pass itself: finite differences compare the gradient with whatever the
engine computes, right or wrong. It sees no gradient at all, and nothing where PyTorch cannot run
the probe's text. Costs a forward pass, to see how far rounding may go.
"""

from __future__ import annotations

import numpy as np

from harness.core.message import message
from harness.core.run import Measured, Run
from harness.core.verdict import Alarm, Skipped, Verdict
from harness.diagnostics.comparison import Pair, Scale, compare
from harness.diagnostics.diagnostic import Diagnostic, Observation
from harness.diagnostics.rounding import output_noise
from harness.runs.trial import Trial


def measure(trial: Trial, run: Run) -> Measured:
    """What rounding may do to the output."""
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
    noise = run.measured["forward"].numbers["noise"]
    return compare(
        [Pair(message("the output"), actual, expected, noise)],
        message("PyTorch gives"),
        Scale.of(run),
    )


FORWARD = Diagnostic(
    name="forward",
    sees="a forward pass that is wrong, whether or not the backward pass follows it",
    blind="every wrong gradient; what PyTorch lacks",
    cost="4, and PyTorch once a probe",
    passes=lambda _: 4,
    check=check,
    measure=measure,
    library="torch",
)
