"""`gradcheck`: the engine's gradient against central differences of its own forward pass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from harness.diagnostics.comparison import compare_gradients
from harness.diagnostics.verdict import Diagnostic, Observation, Verdict
from harness.run import Measured, NumericArray, Run, pack
from harness.trial import Trial

STEP = float(np.cbrt(np.finfo(np.float64).eps))
"""About 6e-6, which balances truncation (h^2) against rounding (eps/h) for float64.

Press et al., Numerical Recipes, section 5.7.
"""

MOST_ELEMENTS = 50
"""Larger leaves would need two forward passes an element."""


def measure(trial: Trial, run: Run) -> Measured:
    """The gradient of the probe's loss by central differences, one element at a time."""
    values = {name: leaf.numpy().copy() for name, leaf in run.leaves.items()}
    elements = sum(value.size for value in values.values())
    if elements > MOST_ELEMENTS:
        return Measured(problem=f"{elements} elements are more than the {MOST_ELEMENTS} it is for")
    if run.cotangent is None:
        return Measured(problem="the run has no output to differentiate")
    cotangent = run.cotangent.numpy()

    def loss() -> float:
        return float(np.sum(trial.output(values) * cotangent))

    return Measured({name: pack(_central(value, loss)) for name, value in values.items()})


def _central(value: NumericArray, loss: Callable[[], float]) -> NumericArray:
    """d loss / d value, by moving each element of `value` in place there and back."""
    gradient = np.zeros_like(value)
    for index in np.ndindex(value.shape):
        here = value[index]
        value[index] = here + STEP
        above = loss()
        value[index] = here - STEP
        below = loss()
        value[index] = here
        gradient[index] = (above - below) / (2 * STEP)
    return gradient


def check(observation: Observation) -> Verdict:
    """Alarm where the engine's gradient and the numerical one part."""
    run = observation.run
    numerical = run.measured["gradcheck"].values
    return compare_gradients(run, numerical, "central differences", rtol=1e-5, atol=1e-7)


GRADCHECK = Diagnostic(
    name="gradcheck",
    sees="a gradient that is not the derivative of the engine's own forward pass",
    blind="a forward pass that is wrong together with its backward pass; kinks",
    cost="2P + 1",
    passes=lambda p: 2 * p + 3,
    check=check,
    measure=measure,
)
