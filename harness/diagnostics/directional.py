"""`directional`: one central difference along a random direction through all leaves at once.

It is compared with `sum(gradient * direction)`, so two forward passes suffice for any number of
elements. A gradient that is wrong in many of its elements is caught almost surely. Like
`gradcheck`, it does not detect a forward and a backward pass that are wrong together, and one wrong
element among many may be hidden by the rounding of the others. Elements at kinks are detected and
not moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.core.measurement import MeasurementForm, Quantity
from harness.core.message import message
from harness.core.run import Measured, NumericArray, Run
from harness.core.vocabulary import Verdict
from harness.diagnostics.diagnostic import (
    ArrayPair,
    Diagnostic,
    Observation,
    Scale,
    check_shapes,
    compare,
)
from harness.diagnostics.differences import Surroundings, Unmeasurable, gradient_noise

if TYPE_CHECKING:
    from harness.runs.trial import Trial


def measure(trial: Trial, run: Run) -> Measured:
    """Measure the slope along the direction: `claimed` by the gradient, and `numerical`."""
    try:
        around = Surroundings(trial, run)
    except Unmeasurable as reason:
        return Measured(problem=str(reason))
    gradient, direction = around.gradient(run), around.anywhere()
    if gradient is None:
        return Measured()
    slope = around.slope(direction, *_claim(gradient, direction))
    if slope.kinked:
        kinks = around.kinks()
        if kinks is None:
            return Measured(problem="too many elements are at kinks, where there is no slope")
        direction[kinks] = 0.0
        if not direction.any():
            return Measured(problem="every element is at a kink, where there is no slope")
        slope = around.slope(direction, *_claim(gradient, direction))
    if slope.kinked:
        return Measured(problem="the output is too rough along the direction for a slope")
    claimed, size = _claim(gradient, direction)
    error = slope.error
    if not abs(claimed - slope.value) <= error:
        error += float(np.abs(direction) @ around.fill(gradient_noise(trial, run)))
    numbers = {"claimed": claimed, "numerical": slope.value, "error": error, "size": size}
    return Measured(numbers=numbers)


def _claim(gradient: NumericArray, direction: NumericArray) -> tuple[float, float]:
    """Return the slope that the gradient implies, and the sum of its terms' absolute values."""
    with np.errstate(invalid="ignore"):
        terms = np.where(direction == 0, 0.0, gradient * direction)
        return float(np.sum(terms)), float(np.sum(np.abs(terms)))


def check(observation: Observation) -> Verdict:
    """Alarm if the gradient's slope differs from the measured one, or cannot be computed."""
    run = observation.run
    if alarm := check_shapes(run):
        return alarm
    numbers = run.measured["directional"].numbers
    claimed, numerical, error = (np.array(numbers[n]) for n in ("claimed", "numerical", "error"))
    pair = ArrayPair(message("the slope along a random direction"), claimed, numerical, error)
    scale = Scale.of(run)
    size = numbers["size"] if np.isfinite(numbers["size"]) else 0.0
    return compare(
        [pair], message("central differences give"), Scale(scale.terms, max(scale.size, size))
    )


DIRECTIONAL = Diagnostic(
    name="directional",
    sees="a gradient that is wrong in many elements, however large the probe",
    blind="a forward pass that is wrong together with its backward pass; kinks; "
    "one wrong element among very many",
    cost="6",
    passes=lambda _: 6,
    check=check,
    measure=measure,
    form=MeasurementForm(
        numbers=tuple(map(Quantity, ("claimed", "numerical", "error", "size"))), may_be_empty=True
    ),
)
