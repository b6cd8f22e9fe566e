"""`trajectory`: the log of a training against PyTorch's log of the same text, step by step.

The first step at which the two differ shows when it went wrong, the entry shows where.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from harness.core.message import Message, message, verbatim
from harness.core.run import Array, NumericArray
from harness.core.verdict import Alarm, Silent, Skipped, Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation

KEPT_DIGITS = 0.4
"""The share of a dtype's digits in which two logs must agree: 5e-7 in float64, 2e-3 in float32.

Rounding alone would leave more. But two correct optimizers also differ in conventions, such as the
1e-6 that PyTorch adds to a norm before it divides by it, and a step hands its error to the next.
"""

IDENTITY = "_error"
"""A key with this ending is how far an identity is off, hence rounding: not to be compared."""

Log = Sequence[dict[str, Array]]


def check(observation: Observation) -> Verdict:
    """Alarm at the first step, and there at the first entry, at which the two logs differ."""
    answer = observation.independent["torch"]
    assert not isinstance(answer, Skipped)
    return compare_logs(observation.run.log, answer.log)


def compare_logs(actual_log: Log, expected_log: Log) -> Verdict:
    """Alarm if a log differs from PyTorch's: in shape, then in value."""
    epsilon = _coarsest(actual_log)
    scales: dict[str, float] = {}
    compared, deviations = 0, [0.0]
    for step, (actuals, expecteds) in enumerate(zip(actual_log, expected_log, strict=False)):
        if actuals.keys() != expecteds.keys():
            return Alarm(
                message(
                    "step {step} logs {actual}, with PyTorch {expected}",
                    step=step,
                    actual=_names(actuals),
                    expected=_names(expecteds),
                )
            )
        tolerance = epsilon**KEPT_DIGITS * (1 + step) ** 0.5  # errors add up like a random walk
        for key in expecteds:
            if actuals[key].shape != expecteds[key].shape:
                return Alarm(
                    message(
                        "at step {step}, {entry} has shape {actual}, PyTorch's has {expected}",
                        step=step,
                        entry=key,
                        actual=actuals[key].shape,
                        expected=expecteds[key].shape,
                    )
                )
        for key in expecteds:
            if key.endswith(IDENTITY):
                continue
            actual, expected = actuals[key].numpy(), expecteds[key].numpy()
            scales[key] = max(scales.get(key, 0.0), _largest(expected))
            deviations.append(_deviation(actual, expected, scales[key]))
            if deviations[-1] > tolerance:
                return Alarm(_difference(step, key, actual, expected), deviations[-1])
            compared += expected.size
    if len(actual_log) != len(expected_log):
        return Alarm(
            message(
                "{actual} steps are logged, with PyTorch {expected}",
                actual=len(actual_log),
                expected=len(expected_log),
            )
        )
    if not compared:
        return Skipped(message("there is nothing in the log to compare"))
    return Silent(compared, max(deviations))


def _coarsest(log: Log) -> float:
    """The resolution of the coarsest floats in a log: a training is as exact as its parameters."""
    dtypes = [np.dtype(array.dtype) for snapshot in log for array in snapshot.values()]
    return max((float(np.finfo(d).eps) for d in dtypes if d.kind == "f"), default=2.0**-52)


def _largest(array: NumericArray) -> float:
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0


def _deviation(actual: NumericArray, expected: NumericArray, scale: float) -> float:
    """How far off, relative to the largest that the key has had; whole numbers have to be equal.

    NaN equals NaN: a text may compute it, and then PyTorch does. Else it is infinitely far off.
    """
    if np.array_equal(actual, expected, equal_nan=expected.dtype.kind == "f"):
        return 0.0
    if expected.dtype.kind != "f" or scale == 0:
        return math.inf
    with np.errstate(invalid="ignore"):
        apart = np.abs(actual.astype(float) - expected.astype(float)) / scale
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    largest = float(np.where(same, 0.0, apart).max())
    return math.inf if math.isnan(largest) else largest


def _difference(step: int, entry: str, actual: NumericArray, expected: NumericArray) -> Message:
    if expected.size == 1:
        return message(
            "at step {step}, {entry} is {actual}, PyTorch's is {expected}",
            step=step,
            entry=entry,
            actual=f"{actual.item():.6g}",
            expected=f"{expected.item():.6g}",
        )
    with np.errstate(invalid="ignore"):
        error = np.abs(actual.astype(float) - expected.astype(float))
    return message(
        "at step {step}, {entry} differs from PyTorch's by up to {error}",
        step=step,
        entry=entry,
        error=f"{np.nanmax(error):.3g}" if np.isfinite(error).any() else "NaN",
    )


def _names(snapshot: dict[str, Array]) -> Message:
    return verbatim(", ".join(snapshot)) if snapshot else message("nothing")


TRAJECTORY = Diagnostic(
    name="trajectory",
    sees="a training that takes another path than PyTorch's, from the first step on which it does",
    blind="what PyTorch has no word for; conventions and precision below the tolerance",
    cost="3, and PyTorch once a probe",
    passes=lambda _: 3,
    check=check,
    library="torch",
    kinds=("steps",),
)
