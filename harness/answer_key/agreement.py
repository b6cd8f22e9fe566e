"""Whether two arrays agree: up to rounding, or as two valid choices at a kink.

At a kink, libraries make different choices, and a choice is not a bug. The unpatched engine's
derivatives at nearby points determine the valid choices: a vector g belongs to Clarke's
subdifferential at x if, in every direction v, g . v lies between the smallest and the largest
one-sided directional derivative of points near x (Clarke, Optimization and Nonsmooth Analysis,
1983, proposition 2.1.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from harness.core.run import Array, Measured, Measurement, NumericArray, Run, pack

if TYPE_CHECKING:
    from harness.runs.trial import Trial

EPS = float(np.finfo(np.float64).eps)

REPEATABLE = 1e-6
"""The relative difference between two runs that rounding can explain, even after some training."""


def agree(actual: NumericArray, expected: NumericArray, rounding: float | None = None) -> bool:
    """Whether shapes and, up to rounding, values are equal; NaN and inf equal themselves."""
    return actual.shape == expected.shape and not wrong_entries(actual, expected, rounding).any()


def wrong_entries(
    actual: NumericArray, expected: NumericArray, rounding: float | None = None
) -> NumericArray:
    """Return which entries of two arrays of one shape differ by more than `rounding`, as booleans.

    `rounding` is relative to each entry and to the largest finite entry of `expected`, which stands
    in for the terms that may have cancelled in a small entry.
    """
    wide, reference = widened(actual), widened(expected)
    sizes = np.abs(reference[np.isfinite(reference)])
    rtol = rounding_of(actual, expected) if rounding is None else rounding
    atol = rtol * float(sizes.max(initial=0.0))
    with np.errstate(all="ignore"):
        return np.asarray(~np.isclose(wide, reference, rtol, atol, equal_nan=True))


def repeats(run: Run, again: Run) -> bool:
    """Whether two runs of a probe on one engine gave the same numbers, up to rounding."""
    first, second = _arrays(run), _arrays(again)
    failures = [failure and failure.type for failure in (run.failure, again.failure)]
    return (
        failures[0] == failures[1]
        and len(first) == len(second)
        and all(
            before.dtype == after.dtype and agree(before.numpy(), after.numpy(), REPEATABLE)
            for before, after in zip(first, second, strict=True)
        )
    )


def _arrays(run: Run) -> list[Array]:
    logged = (array for step in run.log for array in step.values())
    arrays = [run.output, *run.gradients.values(), *logged]
    return [array for array in arrays if array is not None]


def rounding_of(*arrays: NumericArray) -> float:
    """Return the relative difference that rounding may explain, for the coarsest of the dtypes.

    The error of a sum of n numbers grows at worst with n, and typically with its square root
    (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 4.2); 64 is a margin, and
    one per cent is the most that counts as rounding (float16).
    """
    dtypes = [array.dtype for array in arrays if array.dtype.kind in "fc"]
    eps = max([EPS, *(float(np.finfo(dtype).eps) for dtype in dtypes)])
    terms = max([16, *(array.size for array in arrays)])
    return min(64 * math.sqrt(terms) * eps, 0.01)


def deviation(actual: NumericArray, expected: NumericArray, *, scale: float = 0.0) -> float:
    """Return the largest difference relative to the largest entry of `expected`, or to `scale`.

    The larger of the two is used; `scale` is for an `expected` that is zero up to rounding: the
    size of the terms that cancelled. If both are 0, the result is 1 for any difference. Infinite if
    the shapes differ or an entry is not finite; 0 for empty arrays.
    """
    if actual.shape != expected.shape:
        return math.inf
    wide, reference = widened(actual), widened(expected)
    if not (np.isfinite(wide).all() and np.isfinite(reference).all()):
        return math.inf
    size = max(scale, _largest(reference)) or _largest(wide)
    if not size:
        return 0.0
    # Divided first: the difference of two finite numbers may overflow.
    with np.errstate(over="ignore"):
        return _largest(wide / size - reference / size)


def margin(deviation: float, noise: float) -> float:
    """Return by how many orders of magnitude a deviation exceeds the clean engine's own noise.

    Both come from the same measurement on the same probe. A clean engine without any noise counts
    as having one rounding error of float64. `inf` for an infinite deviation; `-inf` for none, and
    for infinite noise, which nothing exceeds. Raises ValueError for a negative number or NaN.
    """
    if not (deviation >= 0 and noise >= 0):
        raise ValueError(f"cannot compare a deviation of {deviation} with a noise of {noise}")
    if deviation == 0 or math.isinf(noise):
        return -math.inf
    return math.log10(deviation) - math.log10(max(noise, EPS))


def widened(array: NumericArray) -> NumericArray:
    """Return the numbers as float64 or complex128, so that no sum or product wraps around."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _largest(array: NumericArray) -> float:
    return float(np.abs(array).max(initial=0.0))


# ----- Subgradients -----

NEARBY = "nearby"
"""The name of this measurement in the answer key."""

MEASUREMENT = Measurement(NEARBY, f"{__name__}:sample_nearby")

POINTS = 24
RADIUS = 1e-5
"""The distance of the nearby points: so near that a smooth derivative is the same up to `SLACK`."""

SLACK = 1e-3
"""How far a directional derivative may leave the interval, relative to the gradient's size."""

DIRECTIONS = 64


def sample_nearby(trial: Trial, run: Run) -> Measured:
    """Return the gradients at points near the leaves; nothing if they all agree, the usual case."""
    assert run.cotangent is not None
    rng = np.random.default_rng(0)
    values = run.values()
    gradients_of: dict[str, list[NumericArray]] = {name: [] for name in values}
    for _ in range(POINTS):
        moved = {name: _move(value, rng) for name, value in values.items()}
        _, gradients = trial.gradients(moved, run.cotangent.numpy())
        for name, gradient in gradients.items():
            gradients_of[name].append(np.zeros_like(values[name]) if gradient is None else gradient)
    sampled = {name: np.stack(several) for name, several in gradients_of.items()}
    smooth = all(
        _spread(several) <= SLACK * (1.0 + _largest(several)) for several in sampled.values()
    )
    return Measured() if smooth else Measured({name: pack(s) for name, s in sampled.items()})


def is_subgradient(gradients: Mapping[str, Array | None], key: Run) -> bool:
    """Whether `gradients` are as valid as those of `key`, which were taken at a kink."""
    nearby = key.measured.get(NEARBY, Measured()).values
    if not nearby:
        return False
    sampled = np.hstack([array.numpy().reshape(POINTS, -1) for array in nearby.values()])
    actual = [gradients.get(name) for name in nearby]
    shapes = [array.shape[1:] for array in nearby.values()]
    if any(g is not None and g.shape != shape for g, shape in zip(actual, shapes, strict=True)):
        return False
    flat = [
        np.zeros(int(np.prod(shape))) if g is None else g.numpy().ravel()
        for g, shape in zip(actual, shapes, strict=True)
    ]
    candidate = np.concatenate(flat).astype(np.float64)
    directions = _directions(candidate.size)
    slopes, claimed = sampled @ directions, candidate @ directions
    slack = SLACK * (1.0 + np.abs(sampled).max()) * np.linalg.norm(directions, axis=0)
    above, below = slopes.max(axis=0) + slack, slopes.min(axis=0) - slack
    return bool(((below <= claimed) & (claimed <= above)).all())


def _directions(size: int) -> NumericArray:
    """Return directions as columns: along every axis, along all axes at once, and random ones."""
    drawn = np.random.default_rng(1).choice([-1.0, 0.0, 1.0], (size, DIRECTIONS))
    return np.hstack([np.eye(size), np.ones((size, 1)), drawn])


def _move(value: NumericArray, rng: np.random.Generator) -> NumericArray:
    if value.dtype.kind != "f":
        return value
    return np.asarray(value + RADIUS * rng.uniform(-1.0, 1.0, value.shape), value.dtype)


def _spread(several: NumericArray) -> float:
    return float(np.ptp(several, axis=0).max(initial=0.0))
