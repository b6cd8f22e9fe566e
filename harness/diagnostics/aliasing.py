"""`aliasing`: no gradient shares its memory with anything else.

That is, with another gradient, a leaf, the cotangent or the output. It compares their memory, and
writes into each gradient in turn, like `clip` and `grad *= scale`, to see what else changes. Costs
one forward and one backward pass. Memory shared inside the graph is not detected unless it affects
a leaf's gradient: there it causes wrong values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.core.measurement import MeasurementForm, Quantity
from harness.core.message import joined, message
from harness.core.run import COTANGENT, OUTPUT, Measured, NumericArray, Run, own_name
from harness.core.vocabulary import Alarm, Declined, Silent, Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation

if TYPE_CHECKING:
    from harness.runs.trial import Trial


def measure(trial: Trial, run: Run) -> Measured:
    """Count the elements of `other` that change with a gradient, by `gradient|other`."""
    assert run.cotangent is not None
    library, cotangent = trial.library, run.cotangent.numpy().copy()
    leaves, output = trial.forward(run.values())
    library.backward(output, cotangent)
    gradients = {f"{name}.grad": library.gradient(leaf) for name, leaf in leaves.items()}
    shown = {name: library.value(leaf) for name, leaf in leaves.items()}
    shown |= {COTANGENT: cotangent, OUTPUT: library.value(output)}
    shown |= {name: gradient for name, gradient in gradients.items() if gradient is not None}
    changed = {}
    for name, gradient in gradients.items():
        if gradient is None or not gradient.flags.writeable:
            continue
        others = {other: array for other, array in shown.items() if other != name}
        for other, count in _write(gradient, others).items():
            changed[f"{name}|{other}"] = float(count)
    return Measured(numbers=changed)


def _write(gradient: NumericArray, others: dict[str, NumericArray]) -> dict[str, int]:
    """Write other numbers into the gradient, count what changed elsewhere, and undo it."""
    original = gradient.copy()
    before = {name: array.copy() for name, array in others.items()}
    gradient[...] = np.where(original == 7, 8, 7)
    counts = {}
    for name, array in others.items():
        same = (array == before[name]) | (np.isnan(array) & np.isnan(before[name]))
        counts[name] = int((~same).sum())
    gradient[...] = original
    return counts


def check(observation: Observation) -> Verdict:
    """Alarm at the first pair that shares memory."""
    run = observation.run
    if run.shared:
        pairs = (
            message("{one} and {other} share memory", one=own_name(one), other=own_name(other))
            for one, other in run.shared
        )
        return Alarm(joined(pairs))
    numbers = run.measured["aliasing"].numbers
    for pair, count in numbers.items():
        if count:
            name, _, other = pair.partition("|")
            return Alarm(
                message(
                    "writing into {gradient} changes {other}",
                    gradient=own_name(name),
                    other=own_name(other),
                )
            )
    gradients = [gradient for gradient in run.gradients.values() if gradient is not None]
    if not gradients:
        return Alarm(message("no leaf has a gradient"))
    if not any(gradient.data for gradient in gradients):
        return Declined(message("the gradients have no elements"))
    return Silent(compared=max(len(numbers), len(gradients)))


ALIASING = Diagnostic(
    name="aliasing",
    sees="a gradient that shares memory with another one, a leaf, the cotangent or the output",
    blind="memory shared inside the graph; errors that do not involve sharing",
    cost="6",
    passes=lambda _: 6,
    check=check,
    measure=measure,
    form=MeasurementForm(numbers=(Quantity("{leaf}.grad|{text}", required=False),)),
)
