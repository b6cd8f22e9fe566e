"""The distance between two arrays: does it exceed rounding, and by how much the noise?"""

from __future__ import annotations

import math

import numpy as np

from harness.core.run import NumericArray

EPS = float(np.finfo(np.float64).eps)


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
