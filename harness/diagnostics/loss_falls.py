"""`loss-falls`: the smoke test that everybody has. It is here to show what it misses.

For a log of steps: the last loss is below the first. For a gradient probe: one small step against
the gradient lowers the loss, written as a hand-made training loop writes it, so that a gradient of
another shape broadcasts there too. At a minimum, at a tie, or where the loss is constant, there is
no slope to follow, and nothing is said.
"""

from __future__ import annotations

import numpy as np

from harness.diagnostics.verdict import Alarm, Diagnostic, Observation, Silent, Skipped, Verdict
from harness.run import Measured, NumericArray, Run
from harness.trial import Trial

STEPS = (1e-3, 1e-5, 1e-7)
"""A step may end beyond a pole or a valley; where the loss is smooth, a smaller one does not."""


def measure(trial: Trial, run: Run) -> Measured:
    """The loss before and after `leaf = leaf - STEP * leaf.grad`: the first step that lowers it.

    Of the largest one, where none does.
    """
    if trial.probe.kind == "steps":
        return Measured()  # the log says it all
    if run.output is None or run.cotangent is None:
        return Measured(problem="the run has no output to follow")
    terms = run.output.numpy() * run.cotangent.numpy()
    before, rounding = float(np.sum(terms)), _rounding(terms)
    if STEPS[0] * _square_length(run) <= rounding:
        return Measured(problem="the gradient is too short for a step along it to show")
    afters = []
    for step in STEPS:
        afters.append(_loss_after(step, trial, run, run.cotangent.numpy()))
        if afters[-1] < before - rounding:
            break
    after = afters[-1] if afters[-1] < before - rounding else afters[0]
    return Measured(numbers={"before": before, "after": after, "rounding": rounding})


def _loss_after(step: float, trial: Trial, run: Run, cotangent: NumericArray) -> float:
    stepped = {
        name: leaf.numpy() - step * gradient.numpy() if gradient else leaf.numpy()
        for name, leaf in run.leaves.items()
        for gradient in [run.gradients.get(name)]
    }
    return float(np.sum(trial.output(stepped) * cotangent))


def _square_length(run: Run) -> float:
    """Of all gradients together: what a step of 1 would take from the loss, were it straight."""
    gradients = [gradient.numpy() for gradient in run.gradients.values() if gradient]
    return float(sum(np.sum(np.square(gradient, dtype=float)) for gradient in gradients))


def _rounding(terms: NumericArray) -> float:
    """How much of the sum of these terms may be rounding."""
    epsilon = np.finfo(terms.dtype).eps if terms.dtype.kind == "f" else 0.0
    return float(16 * epsilon * np.abs(terms).sum())


def check(observation: Observation) -> Verdict:
    """Alarm where the loss does not fall."""
    run = observation.run
    if observation.probe.kind == "steps":
        losses = [float(seen["loss"].numpy()) for seen in run.log if "loss" in seen]
        if len(losses) < 2:
            return Skipped("the log has no two losses")
        return _judge(losses[0], losses[-1])
    numbers = run.measured["loss-falls"].numbers
    if abs(numbers["after"] - numbers["before"]) <= numbers["rounding"]:
        return Skipped("along the gradient the loss stays as it is, but for rounding")
    return _judge(numbers["before"], numbers["after"])


def _judge(before: float, after: float) -> Verdict:
    if after < before:
        return Silent(compared=1)
    return Alarm(f"the loss goes from {before:.6g} to {after:.6g}")


LOSS_FALLS = Diagnostic(
    name="loss-falls",
    sees="training that does not train",
    blind="every gradient that still points downhill, most wrong ones included",
    cost="4, or 6 where a first step does not lower the loss",
    passes=lambda _: 4,
    check=check,
    measure=measure,
    kinds=("gradient", "steps"),
)
