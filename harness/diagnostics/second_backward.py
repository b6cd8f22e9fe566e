"""`second-backward`: after a second backward pass without clearing, each gradient has doubled.

The second pass walks a graph computed anew from the same leaves and, if the library can retain a
graph, in another trial the same graph. Gradients add up only in the leaves: this detects an
overwritten leaf, a gradient left in an interior node, and a graph that keeps state. It costs two
forward and two backward passes, and one and two more for the same graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from harness.core.measurement import MeasurementForm, Quantity
from harness.core.message import Message, message
from harness.core.run import NUMERIC, Array, Measured, Run, gradient_name, pack
from harness.core.vocabulary import Declined, Verdict
from harness.diagnostics.diagnostic import ArrayPair, Diagnostic, Observation, compare_in

if TYPE_CHECKING:
    from harness.runs.trial import Trial

ANEW, SAME = "anew", "same"
"""The two ways: over a graph computed anew, and over the same graph."""


def measure(trial: Trial, run: Run) -> Measured:
    """Return each leaf's gradient after the second backward, by `way/leaf`."""
    assert run.cotangent is not None
    values = run.values()
    cotangent = run.cotangent.numpy()
    leaves, output = trial.forward(values)
    trial.library.backward(output, cotangent.copy())
    output = trial.call(leaves)
    if pack(trial.library.value(output)) != run.output:
        return Measured(problem="the same leaves give a different output the second time")
    trial.library.backward(output, cotangent.copy())
    own = [leaf.name for leaf in trial.probe.leaves]  # the others were created again
    measured = _gradients(trial, {name: leaves[name] for name in own}, ANEW)
    if trial.library.supports("backward_again"):
        leaves, output = trial.forward(values)
        trial.library.backward_again(output, cotangent.copy())
        trial.library.backward_again(output, cotangent.copy())
        measured |= _gradients(trial, leaves, SAME)
    return Measured(measured)


def _gradients(trial: Trial, leaves: dict[str, Any], way: str) -> dict[str, Array]:
    gradients = {name: trial.library.gradient(leaf) for name, leaf in leaves.items()}
    return {f"{way}/{name}": pack(g) for name, g in gradients.items() if g is not None}


def check(observation: Observation) -> Verdict:
    """Alarm if a gradient after the second backward is not twice that of the first."""
    run = observation.run
    measured = run.measured["second-backward"].values
    firsts = {name: gradient.numpy() for name, gradient in run.gradients.items() if gradient}
    if not firsts:
        return Declined(message("no leaf has a gradient"))
    if not any(np.isfinite(first).any() for first in firsts.values()):
        return Declined(message("no gradient is finite"))
    own = {leaf.name for leaf in observation.probe.leaves}
    pairs = [
        ArrayPair(
            _name(way, name),
            measured[key].numpy() if key in measured else np.zeros(first.shape),
            np.where(np.isfinite(first), 2 * first, np.nan),  # twice infinity is infinity
        )
        for way in sorted({key.partition("/")[0] for key in measured} or {ANEW})
        for name, first in firsts.items()
        for key in [f"{way}/{name}"]
        if name in own or key in measured
    ]
    return compare_in(run, pairs, message("twice the first is"))


def _name(way: str, leaf: str) -> Message:
    if way == ANEW:
        return message("{gradient}, recomputed", gradient=gradient_name(leaf))
    return message("{gradient}, over the same graph", gradient=gradient_name(leaf))


SECOND_BACKWARD = Diagnostic(
    name="second-backward",
    sees="gradients that are overwritten, not accumulated; state left by an earlier backward pass",
    blind="a gradient that is wrong in the same way each time",
    cost="14",
    passes=lambda _: 14,
    check=check,
    measure=measure,
    form=MeasurementForm(
        tuple(Quantity(f"{way}/{{leaf}}", "any", NUMERIC, required=False) for way in (ANEW, SAME))
    ),
)
