"""`gradcheck`: the engine's gradient against central differences of its own forward pass.

It catches any gradient that is not the derivative of the forward pass, element by element. It
cannot detect a forward pass that is wrong together with its backward pass, and it skips elements at
kinks, where the derivative is not unique (`differences` explains how they are found). It costs two
forward passes per element, and one to check that the same leaves give the same output; where that
disagrees with the engine, two more per element, and three forward and backward passes to estimate
the rounding error. Probes of more than 50 elements are left to `directional`, and so are those of
the leaves which a probe creates that would exceed this number, the largest first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.core.measurement import MeasurementForm, Quantity
from harness.core.message import message
from harness.core.run import Measured, Run, pack
from harness.core.vocabulary import Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation, compare_gradients
from harness.diagnostics.differences import Surroundings, Unmeasurable, gradient_noise

if TYPE_CHECKING:
    from harness.runs.trial import Trial

MOST_ELEMENTS = 50
"""Larger leaves would require two forward passes per element."""

ERROR = "error of "
"""Before a leaf's name: the bounds on its numerical gradient; infinite at a kink."""


def measure(trial: Trial, run: Run) -> Measured:
    """Measure the gradient of the probe's loss by central differences, one element at a time."""
    own = {leaf.name for leaf in trial.probe.leaves}
    sizes = {name: leaf.numpy().size for name, leaf in run.leaves.items()}
    elements = sum(size for name, size in sizes.items() if name in own)
    if elements > MOST_ELEMENTS:
        return Measured(problem=f"{elements} elements exceed the limit of {MOST_ELEMENTS}")
    for name in sorted(sizes.keys() - own, key=lambda name: sizes[name]):
        if elements + sizes[name] <= MOST_ELEMENTS:
            elements += sizes[name]
            own.add(name)
    try:
        around = Surroundings(trial, run, own)
    except Unmeasurable as reason:
        return Measured(problem=str(reason))
    claimed = around.gradient(run)
    values, errors = np.zeros_like(around.x), np.zeros_like(around.x)
    for i, unit in enumerate(around.unit):
        claim = None if claimed is None else float(claimed[i] * unit)
        slope = around.slope(around.one(i), claim)
        values[i], errors[i] = slope.value / unit, slope.error / unit
    if claimed is not None and (np.abs(values - claimed) > errors).any():
        errors += around.fill(gradient_noise(trial, run))
    measured = {name: pack(part) for name, part in around.split(values).items()}
    bounds = {ERROR + name: pack(part) for name, part in around.split(errors).items()}
    return Measured(measured | bounds)


def check(observation: Observation) -> Verdict:
    """Alarm if the engine's gradient and the numerical one differ."""
    run = observation.run
    measured = run.measured["gradcheck"].values
    numerical = {name: measured[name] for name in run.leaves if name in measured}
    errors = {name: measured[ERROR + name].numpy() for name in numerical}
    return compare_gradients(run, numerical, message("central differences give"), errors)


GRADCHECK = Diagnostic(
    name="gradcheck",
    sees="a gradient that is not the derivative of the engine's own forward pass",
    blind="a forward pass that is wrong together with its backward pass; kinks; "
    f"probes of more than {MOST_ELEMENTS} elements",
    cost="2P + 4",
    passes=lambda p: 2 * p + 4 if p <= MOST_ELEMENTS else 3,
    check=check,
    measure=measure,
    form=MeasurementForm((Quantity("{leaf}"), Quantity(ERROR + "{leaf}"))),
)
