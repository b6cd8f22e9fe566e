"""`causality`: in a `causal_*` probe the past does not depend on the future.

Axis -2 of the first leaf is time. For a few times t, the leaf is replaced by other numbers from t
on: the output before t must not change. With a cotangent that is zero from t on, the leaf's
gradient must also be zero there, so that the backward pass does not leak either. At most three
times are tried, which costs three forward passes and three of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.core.measurement import MeasurementForm, Quantity
from harness.core.message import Message, message
from harness.core.run import NUMERIC, Measured, NumericArray, Run, pack
from harness.core.vocabulary import Skipped, Verdict
from harness.diagnostics.diagnostic import ArrayPair, Diagnostic, Observation, compare_in

if TYPE_CHECKING:
    from harness.runs.trial import Trial


def measure(trial: Trial, run: Run) -> Measured:
    """Measure, for each time, the output with another future and the gradient of the past alone."""
    if not trial.probe.causal:
        return Measured()
    assert run.output is not None
    assert run.cotangent is not None
    name, leaf = next(iter(run.leaves.items()))
    times = _times(leaf.shape, run.output.shape)
    if not times:
        return Measured(problem=f"{name} has no future: one time step, or no axis for it")
    values = run.values()
    other = np.random.default_rng(0).standard_normal(leaf.shape).astype(leaf.dtype)
    measured = {}
    for t in times:
        changed = values[name].copy()
        changed[..., t:, :] = other[..., t:, :]
        measured[f"output {t}"] = pack(trial.output({**values, name: changed}))
        past = run.cotangent.numpy().copy()
        past[..., t:, :] = 0.0
        gradient = trial.gradients(values, past)[1][name]
        if gradient is not None:
            measured[f"gradient {t}"] = pack(gradient)
    return Measured(measured)


def _times(leaf: tuple[int, ...], output: tuple[int, ...]) -> list[int]:
    """Return the first time, one in the middle, and the last one that still has a future."""
    if min(len(leaf), len(output)) < 2 or leaf[-2] != output[-2]:
        return []
    return sorted({1, leaf[-2] // 2, leaf[-2] - 1} - {0, leaf[-2]})


def check(observation: Observation) -> Verdict:
    """Alarm if the past depends on the future."""
    run = observation.run
    if not observation.probe.causal:
        return Skipped(message("the probe is not named `causal_*`"))
    assert run.output is not None
    pairs = []
    for key, array in run.measured["causality"].values.items():
        what, t = key.split()
        if what == "output":
            name = message("with a different future from time {t} on, the output", t=t)
            pairs.append(_pair(name, array.numpy(), run.output.numpy(), slice(None, int(t))))
        else:
            name = message("the gradient from time {t} of the output before it", t=t)
            zeros = np.zeros(_first_shape(run))
            pairs.append(_pair(name, array.numpy(), zeros, slice(int(t), None)))
    return compare_in(run, pairs, message("it must be"))


def _pair(name: Message, actual: NumericArray, expected: NumericArray, times: slice) -> ArrayPair:
    """Pair both arrays at these times, or as a whole if their shapes differ."""
    if actual.shape != expected.shape:
        return ArrayPair(name, actual, expected)
    return ArrayPair(name, actual[..., times, :], expected[..., times, :])


def _first_shape(run: Run) -> tuple[int, ...]:
    return next(iter(run.leaves.values())).shape


CAUSALITY = Diagnostic(
    name="causality",
    sees="an output that depends on the future, and a gradient that leaks from it",
    blind="probes that are not named `causal_*`; a mask that also hides the past",
    cost="15",
    passes=lambda _: 15,
    check=check,
    measure=measure,
    form=MeasurementForm(
        (
            Quantity("output {number}", "any", NUMERIC, required=False),
            Quantity("gradient {number}", "any", NUMERIC, required=False),
        ),
        may_be_empty=True,
    ),
)
