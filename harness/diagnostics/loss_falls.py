"""`loss-falls`: the smoke test that everybody has. It is here to show what it misses.

For a log of steps: the last loss is below the first. For a gradient probe: one small step against
the gradient lowers the loss, written as a hand-made training loop writes it, so that a gradient of
another shape broadcasts there too.
"""

from __future__ import annotations

import numpy as np

from harness.diagnostics.verdict import Alarm, Diagnostic, Observation, Silent, Verdict
from harness.run import Measured, Run
from harness.trial import Trial

STEP = 1e-3


def measure(trial: Trial, run: Run) -> Measured:
    """The loss before and after `leaf = leaf - STEP * leaf.grad` for every leaf."""
    if trial.probe.kind == "steps":
        return Measured()  # the log says it all
    if run.output is None or run.cotangent is None:
        return Measured(problem="the run has no output to follow")
    cotangent = run.cotangent.numpy()
    stepped = {
        name: leaf.numpy() - STEP * gradient.numpy() if gradient else leaf.numpy()
        for name, leaf in run.leaves.items()
        for gradient in [run.gradients.get(name)]
    }
    before = float(np.sum(run.output.numpy() * cotangent))
    after = float(np.sum(trial.output(stepped) * cotangent))
    return Measured(numbers={"before": before, "after": after})


def check(observation: Observation) -> Verdict:
    """Alarm where the loss does not fall."""
    run = observation.run
    if observation.probe.kind == "steps":
        losses = [float(seen["loss"].numpy()) for seen in run.log if "loss" in seen]
        if len(losses) < 2:
            return Alarm("the log has no two losses")
        before, after = losses[0], losses[-1]
    else:
        numbers = run.measured["loss-falls"].numbers
        before, after = numbers["before"], numbers["after"]
    if after < before:
        return Silent(compared=1)
    return Alarm(f"the loss goes from {before:.6g} to {after:.6g}")


LOSS_FALLS = Diagnostic(
    name="loss-falls",
    sees="training that does not train",
    blind="every gradient that still points downhill, most wrong ones included",
    cost="2",
    passes=lambda _: 4,
    check=check,
    measure=measure,
    kinds=("gradient", "steps"),
)
