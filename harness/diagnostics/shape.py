"""`shape`: the one-line invariant `leaf.grad.shape == leaf.shape`.

In a probe of steps, this is checked at each step, and every logged value has to keep its first
shape. A wrong shape that another rule has corrected is not detected.
"""

from __future__ import annotations

from harness.core.message import Message, message
from harness.core.run import Array, array_name, leaf_name
from harness.core.vocabulary import Alarm, Silent, Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation, check_log, check_shapes


def check(observation: Observation) -> Verdict:
    """Alarm at the first gradient or logged value that has the wrong shape."""
    run = observation.run
    if observation.probe.kind == "steps":
        return check_log(run, _changed_shape)
    if alarm := check_shapes(run):
        return alarm
    compared = sum(gradient is not None for gradient in run.gradients.values())
    return Silent(compared) if compared else Alarm(message("no leaf has a gradient"))


def _changed_shape(name: str, step: int, array: Array, other: str, before: Array) -> Message | None:
    if array.shape == before.shape:
        return None
    if other != name:
        return message(
            "{gradient} has shape {actual} after step {step}, but {leaf} has shape {expected}",
            gradient=array_name(name),
            actual=array.shape,
            step=step,
            leaf=leaf_name(other),
            expected=before.shape,
        )
    return message(
        "{entry} has shape {actual} after step {step}, but had {expected} before",
        entry=array_name(name),
        actual=array.shape,
        step=step,
        expected=before.shape,
    )


SHAPE = Diagnostic(
    name="shape",
    sees="a gradient whose shape is not that of its leaf, a parameter that changes its shape",
    blind="wrong values of the right shape; lengths that agree by coincidence",
    check=check,
    kinds=("gradient", "steps"),
)
