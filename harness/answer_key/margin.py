"""How far apart two arrays are: beyond rounding at all, and by how much above the noise."""

from __future__ import annotations

import math

import numpy as np

from harness.core.run import NumericArray

EPS = float(np.finfo(np.float64).eps)


def agree(actual: NumericArray, expected: NumericArray, rounding: float | None = None) -> bool:
    """Whether shapes are equal and values are, up to rounding; NaN and inf in the same places."""
    return actual.shape == expected.shape and not wrong_entries(actual, expected, rounding).any()


def wrong_entries(
    actual: NumericArray, expected: NumericArray, rounding: float | None = None
) -> NumericArray:
    """Which entries of two arrays of one shape differ by more than `rounding`, as booleans.

    `rounding` is relative to each entry and to the largest finite entry of `expected`, which stands
    in for the terms that may have cancelled in a small entry.
    """
    wide, reference = widened(actual), widened(expected)
    sizes = np.abs(reference[np.isfinite(reference)])
    rtol = rounding_of(actual, expected) if rounding is None else rounding
    atol = rtol * float(sizes.max(initial=0.0))
    with np.errstate(all="ignore"):
        return np.asarray(~np.isclose(wide, reference, rtol, atol, equal_nan=True))


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


def deviation(actual: NumericArray, expected: NumericArray, *, scale: float = 0.0) -> float:
    """The largest difference, relative to the largest entry of `expected`, or to `scale` if larger.

    `scale` is for a `expected` that is zero up to rounding: the size of what cancelled. If both
    are 0, the largest entry of `actual` serves, and any difference is one of 1. Infinite where
    shapes differ or an entry is not finite; 0 for empty arrays.
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

    Both come from the same measurement on the same probe. A clean engine without any noise is
    taken to have one rounding of float64. `inf` for an infinite deviation; `-inf` for none, and
    where the noise is infinite, as nothing stands above that. Raises ValueError for a negative
    number or NaN.
    """
    if not (deviation >= 0 and noise >= 0):
        raise ValueError(f"cannot compare a deviation of {deviation} with a noise of {noise}")
    if deviation == 0 or math.isinf(noise):
        return -math.inf
    return math.log10(deviation) - math.log10(max(noise, EPS))


def widened(array: NumericArray) -> NumericArray:
    """The numbers as float64 (or complex128), so that no sum or product of them wraps around."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _largest(array: NumericArray) -> float:
    return float(np.abs(array).max(initial=0.0))
