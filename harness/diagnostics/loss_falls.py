"""`loss-falls`: the usual smoke test, included to show what it misses.

For a log of steps: the last loss is below the first. For a gradient probe: one small step against
the gradient lowers the loss, written as in a hand-written training loop, so that a gradient of
another shape broadcasts or raises an exception, as it would there. Where there is no slope to
follow, at a minimum or a kink, the diagnostic declines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.core.measurement import MeasurementForm, Quantity
from harness.core.message import message
from harness.core.rounding import resolution, rounding
from harness.core.run import Measured, NumericArray, Run, message_of
from harness.core.vocabulary import Alarm, Declined, Silent, Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation, Scale

if TYPE_CHECKING:
    from harness.runs.trial import Trial

STEPS = (1e-3, 1e-5, 1e-7)
"""A large step may overshoot a pole or a valley; a smaller one does not if the loss is smooth."""


def measure(trial: Trial, run: Run) -> Measured:
    """Measure the loss before and after `leaf = leaf - step * leaf.grad`.

    The step is the first that lowers the loss, or the largest if none does.
    """
    if trial.probe.kind == "steps":
        return Measured()  # the log says it all
    if run.output is None or run.cotangent is None:
        return Measured(problem="the run has no output to follow")
    before = _loss(run.output.numpy(), run)
    if np.isinf(before):
        return Measured(problem="the loss is infinite, so a step cannot lower it")
    if np.isnan(before) and trial.probe.brings_non_finite:
        return Measured(problem="the probe's text contains numbers that are not finite")
    try:
        return _follow(trial, run, before)
    except ValueError as error:  # as in a training loop, if a gradient does not fit its leaf
        return Measured(failure=f"ValueError: {message_of(error)}")


def _follow(trial: Trial, run: Run, before: float) -> Measured:
    """Measure the loss after the step. Raises ValueError if a gradient does not fit its leaf."""
    assert run.output is not None
    rounding = _rounding(run, run.output.numpy())
    if STEPS[0] * _square_length(run) <= rounding:
        return Measured(problem="the gradient is too small for a step to change the loss")
    afters = []
    for step in STEPS:
        afters.append(_loss_after(step, trial, run))
        if afters[-1] < before - rounding:
            break
    falls = afters[-1] < before - rounding
    if abs(afters[0] - before) <= rounding and not falls:
        uphill = _loss_after(-STEPS[0], trial, run)
        if uphill > before + rounding:
            return Measured(
                problem="the loss has a kink here: it rises on one side and is flat on the other"
            )
    after = afters[-1] if falls else afters[0]
    return Measured(numbers={"before": before, "after": after, "rounding": rounding})


def _loss(output: NumericArray, run: Run) -> float:
    assert run.cotangent is not None
    return float(np.sum(output * run.cotangent.numpy()))


def _loss_after(step: float, trial: Trial, run: Run) -> float:
    stepped = {
        name: leaf.numpy() - step * gradient.numpy() if gradient else leaf.numpy()
        for name, leaf in run.leaves.items()
        for gradient in [run.gradients.get(name)]
    }
    return _loss(trial.output(stepped), run)


def _square_length(run: Run) -> float:
    """Return the squared length of all gradients: how far a step of 1 would lower a linear loss."""
    gradients = [gradient.numpy() for gradient in run.gradients.values() if gradient]
    return float(sum(np.sum(np.square(gradient, dtype=float)) for gradient in gradients))


def _rounding(run: Run, output: NumericArray) -> float:
    """Return the rounding error of the loss: that of the terms it sums, and of the leaves."""
    assert run.cotangent is not None
    relative = rounding(Scale.of(run).terms, resolution(output))
    with np.errstate(invalid="ignore"):
        moved = [output * run.cotangent.numpy()]
        for name, gradient in run.gradients.items():
            if gradient:
                moved.append(gradient.numpy() * run.leaves[name].numpy())
    return relative * float(sum(np.abs(terms[np.isfinite(terms)]).sum() for terms in moved))


def check(observation: Observation) -> Verdict:
    """Alarm if the loss does not fall."""
    run = observation.run
    if observation.probe.kind == "steps":
        if len(run.losses) < 2:
            return Declined(message("the log does not have two losses"))
        return _judge(run.losses[0], run.losses[-1])
    numbers = run.measured["loss-falls"].numbers
    return _judge(numbers["before"], numbers["after"], numbers["rounding"])


def _judge(before: float, after: float, rounding: float = 0.0) -> Verdict:
    if after < before - rounding:
        return Silent(compared=1)
    return Alarm(
        message(
            "the loss goes from {before} to {after}", before=f"{before:.6g}", after=f"{after:.6g}"
        )
    )


LOSS_FALLS = Diagnostic(
    name="loss-falls",
    sees="a training run, or a step against the gradient, that does not lower the loss",
    blind="any gradient that still points downhill, as most wrong ones do",
    cost="4, and up to 3 more if the first step does not lower the loss",
    passes=lambda _: 4,
    check=check,
    measure=measure,
    form=MeasurementForm(
        numbers=tuple(map(Quantity, ("before", "after", "rounding"))), may_be_empty=True
    ),
    kinds=("gradient", "steps"),
)
