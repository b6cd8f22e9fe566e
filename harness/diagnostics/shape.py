"""`shape`: the one-line invariant `leaf.grad.shape == leaf.shape`.

In a log of steps there are no gradients to look at; there the invariant is that whatever is logged
keeps the shape that it had at first: a parameter does not grow. It costs nothing beside the run,
and sees no wrong value, nor a wrong shape that another rule has made fit again on the way.
"""

from __future__ import annotations

from harness.core.run import Run
from harness.core.verdict import Alarm, Silent, Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation


def check(observation: Observation) -> Verdict:
    """Alarm at the first gradient, or logged value, of another shape than it must have."""
    run = observation.run
    return _check_log(run) if observation.probe.kind == "steps" else _check_gradients(run)


def _check_gradients(run: Run) -> Verdict:
    compared = 0
    for name, gradient in run.gradients.items():
        if gradient is None:
            continue
        compared += 1
        if gradient.shape != run.leaves[name].shape:
            return Alarm(f"{name}.grad is {gradient.shape}, {name} is {run.leaves[name].shape}")
    return Silent(compared) if compared else Alarm("no leaf has a gradient")


def _check_log(run: Run) -> Verdict:
    first: dict[str, tuple[int, ...]] = {}
    compared = 0
    for step, snapshot in enumerate(run.log):
        for name, seen in snapshot.items():
            if first.setdefault(name, seen.shape) != seen.shape:
                return Alarm(f"{name} is {seen.shape} after step {step}, it was {first[name]}")
            compared += 1
    return Silent(compared) if compared else Alarm("the log is empty")


SHAPE = Diagnostic(
    name="shape",
    sees="a gradient of another shape than its leaf, a parameter that changes its shape",
    blind="wrong values of the right shape; lengths that agree by accident",
    cost="3, the run itself",
    passes=lambda _: 3,
    check=check,
    kinds=("gradient", "steps"),
)
