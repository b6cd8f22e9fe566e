"""Conditioning: how far the numbers of a run move if its inputs move by one unit in the last place.

Rounding moves the numbers within a computation by about as much. So where the unpatched engine's
own result moves further than `harness.core.rounding` explains, two correct engines differ as well,
and a difference of that size says nothing about a patch (Higham, Accuracy and Stability of
Numerical Algorithms, 2nd edition, 2002, section 1.6: the forward error is about the condition
number times the backward error). An example is a gradient that is 0 in exact arithmetic: what is
computed is rounding error, and Adam divides it by its own size.

`harness.answer_key.perturbation` measures it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from harness.core.message import Kind, Message, message
from harness.core.rounding import largest, resolution
from harness.core.run import Array, Measurement, MeasurementForm, Quantity, Run, array_name

CONDITIONING = Measurement(
    "conditioning",
    "harness.answer_key.perturbation:measure",
    kinds=("gradient", "steps", "module"),
    form=MeasurementForm(
        numbers=tuple(
            Quantity(key, required=False)
            for key in ("output", "steps", "{leaf}.grad", "{number} {text}")
        )
    ),
)
"""Must be measured on the unpatched engine, so that what rounding moves is not a bug."""

OUTPUT, STEPS = "output", "steps"
"""Names of what can move, besides gradients (`a.grad`) and entries of a log (`3 loss`): the output
and the number of steps."""

TIMES = 16
"""Differences up to this multiple of the conditioning error are not judged: a computation rounds
several times, and each pattern shows only a part of what can move."""


def gradient_name(leaf: str) -> str:
    """Return the name of a leaf's gradient."""
    return f"{leaf}.grad"


def entry_name(step: int, entry: str) -> str:
    """Return the name of an entry of the log."""
    return f"{step} {entry}"


def movements(key: Run) -> dict[str, float]:
    """Return by how much the arrays move that move by more than rounding explains."""
    measured = key.measured.get(CONDITIONING.name)
    return measured.numbers if measured else {}


def slack(key: Run, name: str) -> float:
    """Return the difference to accept in an array, beyond rounding; 0 if it does not move."""
    return TIMES * movements(key).get(name, 0.0)


def ill_conditioned(key: Run) -> dict[str, float]:
    """Return the arrays in which errors in half of the digits are not judged, with their slack.

    In a log, the digits are those of the largest number that the entry has at any step. An array
    that is 0 in exact arithmetic has none of its own: then the largest number of the run counts.
    """
    moving = movements(key)
    if not moving:
        return {}
    arrays = {name: array.numpy() for name, array, _ in arrays_of(key)}
    leaves, sizes = key.values().values(), dict[str, float]()
    for name, array in arrays.items():
        entry = _entry_of(name)
        sizes[entry] = max(sizes.get(entry, 0.0), largest(array))
    found = {}
    for name in moving:
        hidden, size = slack(key, name), sizes.get(_entry_of(name), 0.0)
        if size <= hidden:
            size = max(largest(*leaves), *sizes.values())
        eps = resolution(*(arrays[one] for one in [name] if one in arrays), *leaves)
        if hidden > math.sqrt(eps) * size:
            found[name] = hidden
    return found


def description_of(name: str) -> Message:
    """Return the name of an array, or of what else can move, as reports show it."""
    step, entry = _parts_of(name)
    if step:
        return message("{entry} after step {step}", entry=array_name(entry), step=step)
    names = {OUTPUT: message(Kind.OUTPUT), STEPS: message("the number of steps")}
    return names.get(name) or array_name(name)


def _entry_of(name: str) -> str:
    """Return the name of an array without the number of its step."""
    return _parts_of(name)[1]


def _parts_of(name: str) -> tuple[str, str]:
    """Return the number of the step, or an empty text, and the rest of the name."""
    step, _, entry = name.partition(" ")
    return (step, entry) if step.isdigit() else ("", name)


def arrays_of(run: Run) -> Iterator[tuple[str, Array, int]]:
    """Yield each array that was observed, with its name and the passes that led to it."""
    if run.output:
        yield OUTPUT, run.output, 1
    for leaf, gradient in run.gradients.items():
        if gradient:
            yield gradient_name(leaf), gradient, 1
    for step, entries in enumerate(run.logged):
        for entry, array in entries.items():
            yield entry_name(step, entry), array, step + 1
