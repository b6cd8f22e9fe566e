"""Rounding: how far two correct computations of the same numbers may be apart.

A number that goes through n roundings of unit roundoff u has a relative error of at most
`gamma_n = n u / (1 - n u)` (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition,
2002, lemma 3.1). Rounding errors have either sign, so they rarely add up to that: if they are
independent with mean zero, the error exceeds `lambda sqrt(n) u`, to first order, with a probability
of at most `2 exp(-lambda^2 / 2)` (Higham and Mary, A New Approach to Probabilistic Rounding Error
Analysis, SIAM J. Sci. Comput. 41(5), 2019, theorem 2.4). Two computations may differ by twice as
much, which is `lambda sqrt(n)` times the machine epsilon.

The answer key and the diagnostics use only this rule. The error is relative to the size of the
terms that were added. An array does not show it if they cancelled, so it is estimated by the
largest number of the array or of a related one, never by a single small entry.
"""

from __future__ import annotations

import math

import numpy as np

from harness.core.run import Array, NumericArray, Run

EPS = float(np.finfo(np.float64).eps)

LAMBDA = 8
"""With this value, the probability that an entry exceeds the bound by chance is below 3e-14."""

PER_ELEMENT = 4
"""Roundings for each element: it is multiplied and added, forward and backward."""

FEWEST = 16
"""The number of elements that a smaller array counts as, since ops round several times."""

REPEATABLE = 1e-6
"""The relative difference between two runs that rounding can explain, even after some training."""

MOST = 0.01
"""A difference of more than one per cent is never rounding, not even in float16."""


def rounding(elements: int, eps: float) -> float:
    """Return the relative difference that rounding may explain.

    Parameters
    ----------
    elements : int
        The number of elements that an entry may depend on.
    eps : float
        The machine epsilon, which is twice the unit roundoff.
    """
    roundings = PER_ELEMENT * max(elements, FEWEST)
    return min(LAMBDA * math.sqrt(roundings) * eps, MOST)


def resolution(*arrays: NumericArray) -> float:
    """Return the coarsest machine epsilon among them; other dtypes count as float64."""
    dtypes = [array.dtype for array in arrays if array.dtype.kind in "fc"]
    return max((float(np.finfo(dtype).eps) for dtype in dtypes), default=EPS)


def rounding_of(*arrays: NumericArray, passes: int = 1) -> float:
    """Return the `rounding` of arrays of which nothing but their sizes and dtypes is known.

    After several passes, such as the steps of a training, as many times more roundings add up.
    """
    elements = max(FEWEST, *(array.size for array in arrays))
    return rounding(elements * passes, resolution(*arrays))


def wrong_entries(
    actual: NumericArray,
    expected: NumericArray,
    rounding: float | None = None,
    *,
    scale: float = 0.0,
    slack: NumericArray | float = 0.0,
) -> NumericArray:
    """Return which entries of two arrays of one shape differ beyond rounding, as booleans.

    Whole numbers must be equal, unless there is a slack; NaN and inf equal themselves.

    Parameters
    ----------
    actual, expected : array
        Arrays of numbers, of any dtypes.
    rounding : float, optional
        The relative difference to accept; by default, `rounding_of` the two.
    scale : float
        The size of the terms that may have cancelled, if it is more than the largest finite entry
        of `expected`.
    slack : float or array
        A difference to accept in addition to rounding.
    """
    if not ({actual.dtype.kind, expected.dtype.kind} & set("fc") or np.any(slack)):
        return np.asarray(actual != expected)
    relative = rounding_of(actual, expected) if rounding is None else rounding
    wide, reference = widened(actual), widened(expected)
    with np.errstate(all="ignore"):
        tolerance = relative * max(scale, largest(reference)) + slack
        is_equal = (wide == reference) | (np.isnan(wide) & np.isnan(reference))
        return np.asarray(~(is_equal | (np.abs(wide - reference) <= tolerance)))


def agree(actual: NumericArray, expected: NumericArray, rounding: float | None = None) -> bool:
    """Whether shapes and, up to rounding, values are equal; NaN and inf equal themselves."""
    return actual.shape == expected.shape and not wrong_entries(actual, expected, rounding).any()


def deviation(actual: NumericArray, expected: NumericArray) -> float:
    """Return the largest difference relative to the largest entry of `expected`.

    If all of them are 0, the result is 1 for any difference. Infinite if the shapes differ or an
    entry is not finite; 0 for empty arrays.
    """
    if actual.shape != expected.shape:
        return math.inf
    wide, reference = widened(actual), widened(expected)
    if not (np.isfinite(wide).all() and np.isfinite(reference).all()):
        return math.inf
    size = largest(reference) or largest(wide)
    if not size:
        return 0.0
    # Divided first: the difference of two finite numbers may overflow.
    with np.errstate(over="ignore"):
        return largest(wide / size - reference / size)


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


def largest(*arrays: NumericArray) -> float:
    """Return the largest absolute value of the finite entries; 0 if there are none."""
    return max(map(_largest_of, arrays), default=0.0)


def _largest_of(array: NumericArray) -> float:
    wide = widened(array)
    size = float(np.abs(wide).max(initial=0.0))
    if math.isfinite(size):
        return size
    return float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0))


def widened(array: NumericArray) -> NumericArray:
    """Return the numbers as float64 or complex128, so that no sum or product wraps around.

    An array that already has this dtype is not copied.
    """
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64, copy=False)


def summed_to(shape: tuple[int, ...], array: NumericArray) -> NumericArray:
    """Return the array summed to `shape`, or as it is if `shape` does not broadcast to its own."""
    added = array.ndim - len(shape)
    pairs = zip(shape, array.shape[max(added, 0) :], strict=False)
    if added < 0 or any(length not in (1, full) for length, full in pairs):
        return array
    axes = [axis + added for axis, length in enumerate(shape) if length == 1]
    return np.asarray(array.sum(axis=(*range(added), *axes))).reshape(shape)


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
