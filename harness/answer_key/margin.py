"""How far apart two arrays are: beyond rounding at all, and by how much beyond the noise."""

from __future__ import annotations

import math

import numpy as np

from harness.core.run import NumericArray

EPS = float(np.finfo(np.float64).eps)


def agree(actual: NumericArray, desired: NumericArray, rounding: float | None = None) -> bool:
    """Whether shapes are equal and values are, up to rounding; NaN and inf in the same places."""
    return actual.shape == desired.shape and not wrong_entries(actual, desired, rounding).any()


def wrong_entries(
    actual: NumericArray, desired: NumericArray, rounding: float | None = None
) -> NumericArray:
    """Which entries of two arrays of one shape differ by more than `rounding`, as booleans.

    `rounding` is relative to each entry and to the largest finite entry of `desired`, which stands
    for the terms that a small entry may be what is left of.
    """
    mine, right = widened(actual), widened(desired)
    sizes = np.abs(right[np.isfinite(right)])
    rtol = rounding_of(actual, desired) if rounding is None else rounding
    atol = rtol * float(sizes.max(initial=0.0))
    with np.errstate(all="ignore"):
        return np.asarray(~np.isclose(mine, right, rtol, atol, equal_nan=True))


def rounding_of(*arrays: NumericArray) -> float:
    """The relative difference that rounding may explain: that of the coarsest dtype among them.

    The error of a sum of n numbers grows with n at worst and with its root as a rule (Higham,
    Accuracy and Stability of Numerical Algorithms, 2002, section 4.2); 64 is a margin, and one per
    cent the most that is ever called rounding (float16).
    """
    dtypes = [array.dtype for array in arrays if array.dtype.kind in "fc"]
    eps = max([EPS, *(float(np.finfo(dtype).eps) for dtype in dtypes)])
    terms = max([16, *(array.size for array in arrays)])
    return min(64 * math.sqrt(terms) * eps, 0.01)


def deviation(actual: NumericArray, desired: NumericArray, *, scale: float = 0.0) -> float:
    """The largest difference, relative to the largest entry of `desired`, or to `scale` if larger.

    `scale` is for a `desired` that is zero but for rounding: the size of what cancelled. Where both
    are 0 the largest entry of `actual` serves, and any difference is one of 1. Infinite where
    shapes differ or an entry is not finite; 0 for empty arrays.
    """
    if actual.shape != desired.shape:
        return math.inf
    mine, right = widened(actual), widened(desired)
    if not (np.isfinite(mine).all() and np.isfinite(right).all()):
        return math.inf
    size = max(scale, _largest(right)) or _largest(mine)
    if not size:
        return 0.0
    # Divided first: the difference of two finite numbers may overflow.
    with np.errstate(over="ignore"):
        return _largest(mine / size - right / size)


def margin(deviation: float, noise: float) -> float:
    """By how many orders of magnitude a deviation stands above the clean engine's own noise.

    Both come from the same measurement on the same probe. A clean engine without any noise is
    taken to have one rounding of float64. `inf` for an infinite deviation; `-inf` for none, and
    where the noise is infinite, as nothing stands above that. Raises ValueError for a negative
    number or NaN.
    """
    if not (deviation >= 0 and noise >= 0):
        raise ValueError(f"a deviation of {deviation} over a noise of {noise} says nothing")
    if deviation == 0 or math.isinf(noise):
        return -math.inf
    return math.log10(deviation) - math.log10(max(noise, EPS))


def widened(array: NumericArray) -> NumericArray:
    """The numbers as float64 (or complex128), so that no sum or product of them wraps around."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _largest(array: NumericArray) -> float:
    return float(np.abs(array).max(initial=0.0))
