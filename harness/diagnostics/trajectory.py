"""`trajectory`: the log of a training against PyTorch's log of the same text, step by step.

The first step at which the two part says when it went wrong, the key says where.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

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
    """Alarm at the first step, and there at the first key, where the two logs part."""
    answer = observation.independent["torch"]
    assert not isinstance(answer, Skipped)
    return compare_logs(observation.run.log, answer.log)


def compare_logs(mine: Log, theirs: Log) -> Verdict:
    """Alarm where `mine` parts from PyTorch's log: in shape, then in value."""
    epsilon = _coarsest(mine)
    scales: dict[str, float] = {}
    compared, deviations = 0, [0.0]
    for step, (seen, answer) in enumerate(zip(mine, theirs, strict=False)):
        if seen.keys() != answer.keys():
            return Alarm(f"step {step} logs {_names(seen)}, with PyTorch {_names(answer)}")
        tolerance = epsilon**KEPT_DIGITS * (1 + step) ** 0.5  # errors add up like a random walk
        for key in answer:
            if seen[key].shape != answer[key].shape:
                shapes = f"{seen[key].shape}, PyTorch's has {answer[key].shape}"
                return Alarm(f"at step {step}, {key} has the shape {shapes}")
        for key in answer:
            if key.endswith(IDENTITY):
                continue
            actual, desired = seen[key].numpy(), answer[key].numpy()
            scales[key] = max(scales.get(key, 0.0), _largest(desired))
            deviations.append(_deviation(actual, desired, scales[key]))
            if deviations[-1] > tolerance:
                return Alarm(f"at step {step}, {key} {_apart(actual, desired)}", deviations[-1])
            compared += desired.size
    if len(mine) != len(theirs):
        return Alarm(f"{len(mine)} steps are logged, with PyTorch {len(theirs)}")
    if not compared:
        return Skipped("there is nothing in the log to compare")
    return Silent(compared, max(deviations))


def _coarsest(log: Log) -> float:
    """The resolution of the coarsest floats in a log: a training is as exact as its parameters."""
    dtypes = [np.dtype(seen.dtype) for snapshot in log for seen in snapshot.values()]
    return max((float(np.finfo(d).eps) for d in dtypes if d.kind == "f"), default=2.0**-52)


def _largest(array: NumericArray) -> float:
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0


def _deviation(actual: NumericArray, desired: NumericArray, scale: float) -> float:
    """How far off, relative to the largest that the key has had; whole numbers have to be equal.

    NaN equals NaN: a text may compute it, and then PyTorch does. Else it is infinitely far off.
    """
    if np.array_equal(actual, desired, equal_nan=desired.dtype.kind == "f"):
        return 0.0
    if desired.dtype.kind != "f" or scale == 0:
        return math.inf
    with np.errstate(invalid="ignore"):
        apart = np.abs(actual.astype(float) - desired.astype(float)) / scale
    same = (actual == desired) | (np.isnan(actual) & np.isnan(desired))
    largest = float(np.where(same, 0.0, apart).max())
    return math.inf if math.isnan(largest) else largest


def _apart(actual: NumericArray, desired: NumericArray) -> str:
    if desired.size == 1:
        return f"is {actual.item():.6g}, PyTorch's is {desired.item():.6g}"
    with np.errstate(invalid="ignore"):
        error = np.abs(actual.astype(float) - desired.astype(float))
    apart = f"by up to {np.nanmax(error):.3g}" if np.isfinite(error).any() else "by NaN"
    return f"parts from PyTorch's {apart}"


def _names(snapshot: dict[str, Array]) -> str:
    return ", ".join(snapshot) or "nothing"


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
