"""The fingerprint: the simplest explanation of a wrong array by the correct one.

An explanation is a message together with the array that it predicts, and holds only if it
reproduces the actual array. Explanations are tried in the order of simplicity, and the first that
holds is the fingerprint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np

from harness.answer_key.naming import axes_named, factor_named, listed, region_named, slices_named
from harness.core.message import Message, message
from harness.core.rounding import agree, deviation, rounding_of, widened, wrong_entries
from harness.core.run import NumericArray

_MOST_AXES = 5  # of arrays whose permutations and sets of axes are searched


class _Explanation(NamedTuple):
    sentence: Message
    predicted: NumericArray
    observed: NumericArray
    """The array that the prediction has to agree with."""


def fingerprint(
    actual: NumericArray, expected: NumericArray, *, sizes: Mapping[Message, int] = {}
) -> Message | None:
    """Return how `actual` follows from `expected`; None if no simple explanation fits.

    The arrays may have any shapes and numeric dtypes. `sizes` holds lengths of the problem by name,
    which may explain a factor. If any explanation would fit (a single number is always *some*
    multiple of another), only a remarkable one is returned. Never raises.
    """
    if not (actual.size and expected.size):
        return None
    rounding = rounding_of(actual, expected)
    dtypes, actual, expected = (actual.dtype, expected.dtype), widened(actual), widened(expected)
    with np.errstate(all="ignore"):
        if agree(actual, expected, rounding):
            same = dtypes[0] == dtypes[1]
            return None if same else message("the same numbers, as {dtype}", dtype=dtypes[0])
        if actual.shape == expected.shape:
            explanations = _explain(actual, expected, sizes, rounding)
        else:
            explanations = _explain_shape(actual, expected)
        for sentence, predicted, observed in explanations:
            if agree(predicted, observed, rounding):
                return sentence
    return None


def _explain(
    actual: NumericArray, expected: NumericArray, sizes: Mapping[Message, int], rounding: float
) -> Iterator[_Explanation]:
    yield from _by_entry(actual, expected, sizes, rounding)
    yield from _transposed(actual, expected)
    yield from _reversed(actual, expected)
    for axis in range(expected.ndim):
        yield from _reordered(actual, expected, axis)
        yield from _spread_again(actual, expected, axis)
    yield from _constant(actual)
    yield from _in_parts(actual, expected, sizes, rounding)
    in_order = np.sort(expected, axis=None), np.sort(actual, axis=None)
    yield _Explanation(message("the numbers of the correct one in another order"), *in_order)


# ----- Entry by entry -----


def _by_entry(
    actual: NumericArray, expected: NumericArray, sizes: Mapping[Message, int], rounding: float
) -> Iterator[_Explanation]:
    """Yield rules that hold for all entries, regardless of position."""
    many = actual.size > 1
    # What rounding left of a sum of zeros counts as zero: it adds nothing to the correct one.
    finite = np.where(np.isfinite(expected), expected, 0)
    zero = message("all zero") if many else message("zero")
    yield _Explanation(zero, finite + actual, finite)
    nan = message("all NaN") if many else message("NaN")
    yield _Explanation(nan, np.full_like(expected, np.nan), actual)
    infinite = message("all infinite") if many else message("infinite")
    yield _Explanation(infinite, np.copysign(np.inf, actual.real), actual)
    either = message("all NaN or infinite") if many else message("NaN or infinite")
    yield _Explanation(either, np.where(np.isfinite(actual), np.nan, actual), actual)
    yield _Explanation(message("the sign is flipped"), -expected, actual)
    yield from _factor(actual, expected, sizes, rounding)
    if _varies(expected, rounding):
        offset = np.median((actual - expected).real)
        shifted = message("the correct one plus {offset}", offset=f"{offset:.4g}")
        yield _Explanation(shifted, expected + offset, actual)
        yield from _rounded(actual, expected)


def _factor(
    actual: NumericArray, expected: NumericArray, sizes: Mapping[Message, int], rounding: float
) -> Iterator[_Explanation]:
    usable = np.where(np.isfinite(actual) & np.isfinite(expected), np.abs(expected), 0)
    largest = np.unravel_index(usable.argmax(), expected.shape)
    factor = float((actual[largest] / expected[largest]).real) if usable[largest] else 0.0
    if factor:
        sentence, remarkable = factor_named(factor, sizes, rounding)
        if remarkable or _varies(np.abs(expected[expected != 0]), rounding):
            yield _Explanation(sentence, factor * expected, actual)


def _varies(array: NumericArray, rounding: float) -> bool:
    """Whether an array holds two different numbers: any rule can be made to fit a single one."""
    finite = array[np.isfinite(array)]
    return bool(finite.size) and not agree(finite, np.full_like(finite, finite[0]), rounding)


def _rounded(actual: NumericArray, expected: NumericArray) -> Iterator[_Explanation]:
    if expected.dtype.kind == "c":
        return
    truncated = message("the correct one truncated to whole numbers")
    yield _Explanation(truncated, np.trunc(expected), actual)
    for dtype in (np.dtype(np.float32), np.dtype(np.float16)):
        rounded = expected.astype(dtype).astype(expected.dtype)
        sentence = message("the correct one rounded to {dtype}", dtype=dtype)
        yield _Explanation(sentence, rounded, actual)
    # A computation in float32 rounds more than once, so the last bits differ.
    if 1e-10 < deviation(actual, expected) < 16 * np.finfo(np.float32).eps:
        digits = message("correct only to the seven digits of float32")
        yield _Explanation(digits, actual, actual)


def _constant(actual: NumericArray) -> Iterator[_Explanation]:
    if actual.size > 1:
        number = actual.flat[0]
        sentence = message("{number} in every entry", number=f"{number:.4g}")
        yield _Explanation(sentence, np.full_like(actual, number), actual)


def _in_parts(
    actual: NumericArray, expected: NumericArray, sizes: Mapping[Message, int], rounding: float
) -> Iterator[_Explanation]:
    """Yield a rule for the wrong entries, a factor for each slice, or where the wrong ones are."""
    wrong = wrong_entries(actual, expected, rounding)
    some = not wrong.all()
    where, is_informative = region_named(wrong, expected)
    if some:
        parts = actual[wrong], expected[wrong]
        for part in (*_by_entry(*parts, sizes, rounding), *_constant(actual[wrong])):
            sentence = message("correct except {where}: {rule}", where=where, rule=part.sentence)
            yield part._replace(sentence=sentence)
    for axis in range(expected.ndim):
        yield from _factor_by_slice(actual, expected, axis)
    if some and is_informative:
        sentence = message("correct except {where}", where=where)
        yield _Explanation(sentence, actual[~wrong], expected[~wrong])


def _factor_by_slice(
    actual: NumericArray, expected: NumericArray, axis: int
) -> Iterator[_Explanation]:
    """Yield a factor for each slice, by least squares; a slice needs two nonzero numbers for it."""
    others = tuple(i for i in range(expected.ndim) if i != axis)
    factors = (actual * expected).sum(others, keepdims=True) / (expected**2).sum(
        others, keepdims=True
    )
    if np.isfinite(factors).all() and np.count_nonzero(expected, others).min() > 1:
        names = slices_named(range(expected.shape[axis]), expected.ndim, axis)
        digits = 4 if np.abs(factors - 1).max() > 1e-3 else 8
        numbers = listed([f"{factor:.{digits}g}" for factor in factors.flat])
        sentence = message(
            "{slices} of the correct one times {factors}", slices=names, factors=numbers
        )
        yield _Explanation(sentence, factors * expected, actual)


# ----- The same numbers in other places -----


def _transposed(actual: NumericArray, expected: NumericArray) -> Iterator[_Explanation]:
    if expected.ndim == actual.ndim <= _MOST_AXES:
        for axes in [*permutations(range(expected.ndim))][1:]:
            if expected.ndim == 2:
                sentence = message("the correct one transposed")
            else:
                sentence = message("the correct one with its axes in the order {axes}", axes=axes)
            yield _Explanation(sentence, expected.transpose(axes), actual)


def _reversed(actual: NumericArray, expected: NumericArray) -> Iterator[_Explanation]:
    for axes in _sets_of_axes(expected):
        sentence = message("the correct one reversed along {axes}", axes=axes_named(axes))
        yield _Explanation(sentence, np.flip(expected, axes), actual)


def _reordered(actual: NumericArray, expected: NumericArray, axis: int) -> Iterator[_Explanation]:
    """Yield one slice repeated, and all slices shifted or permuted: only a few orders are tried."""
    length = expected.shape[axis]
    sums, expected_sums = _summary(actual, axis), _summary(expected, axis)
    for first in np.abs(expected_sums - sums[0]).argsort()[:4].tolist():
        name = slices_named([first], expected.ndim, axis)
        sentence = message("{slice} of the correct one, repeated", slice=name)
        yield _Explanation(sentence, expected.take([first] * length, axis), actual)
        shift = min(-first % length, -first % length - length, key=abs)
        sentence = message(
            "the correct one shifted by {shift} along {axis}", shift=shift, axis=axes_named([axis])
        )
        yield _Explanation(sentence, np.roll(expected, shift, axis), actual)
    order = expected_sums.argsort()[sums.argsort().argsort()]
    names = slices_named(order.tolist(), expected.ndim, axis)
    sentence = message("{slices} of the correct one, in this order", slices=names)
    yield _Explanation(sentence, expected.take(order, axis), actual)


def _summary(array: NumericArray, axis: int) -> NumericArray:
    """Return one number for each slice, to recognise it by."""
    rows = np.moveaxis(array.real, axis, 0).reshape(array.shape[axis], -1)
    weights = np.cos(np.arange(1, rows.shape[1] + 1))
    return np.asarray(np.where(np.isfinite(rows), rows, 0) @ weights)


def _spread_again(
    actual: NumericArray, expected: NumericArray, axis: int
) -> Iterator[_Explanation]:
    name = axes_named([axis])
    total = message("the sum of the correct one over {axis}, repeated along it", axis=name)
    mean = message("the mean of the correct one over {axis}, repeated along it", axis=name)
    for sentence, reduce in ((total, np.sum), (mean, np.mean)):
        everywhere = np.broadcast_to(reduce(expected, axis=axis, keepdims=True), expected.shape)
        yield _Explanation(sentence, everywhere, actual)


# ----- Another shape -----


def _explain_shape(actual: NumericArray, expected: NumericArray) -> Iterator[_Explanation]:
    if _squeezed(actual.shape) == _squeezed(expected.shape):
        sentence = (
            message("the same numbers, with an axis of length 1 moved"),
            message("the same numbers, with an extra axis of length 1"),
            message("the same numbers, with an axis of length 1 missing"),
        )[np.sign(actual.ndim - expected.ndim)]
        yield _Explanation(sentence, actual.reshape(expected.shape), expected)
    yield from _transposed(actual, expected)
    if actual.size == expected.size:
        sentence = message("the same numbers in the same order, in another shape")
        yield _Explanation(sentence, actual.reshape(expected.shape), expected)
    elif actual.size > expected.size:
        yield from _reduced(actual, expected, column=0)
    else:
        yield from _reduced(expected, actual, column=1)


def _reductions(axes: Message) -> tuple[tuple[Message, Message], ...]:
    """Return how the smaller array follows from the larger: if the actual is larger, if smaller."""
    return (
        (
            message("the correct one, repeated along {axes}", axes=axes),
            message("not repeated along {axes}", axes=axes),
        ),
        (
            message("not summed over {axes}: its sum is the correct one", axes=axes),
            message("the correct one, summed over {axes}", axes=axes),
        ),
        (
            message("not averaged over {axes}: its mean is the correct one", axes=axes),
            message("the correct one, averaged over {axes}", axes=axes),
        ),
        (
            message("its first slice along {axes} is the correct one", axes=axes),
            message("the first slice of the correct one along {axes}", axes=axes),
        ),
        (
            message("its last slice along {axes} is the correct one", axes=axes),
            message("the last slice of the correct one along {axes}", axes=axes),
        ),
    )


def _reduced(large: NumericArray, small: NumericArray, column: int) -> Iterator[_Explanation]:
    for axes in _sets_of_axes(large):
        shape = tuple(1 if i in axes else n for i, n in enumerate(large.shape))
        if _squeezed(shape) != _squeezed(small.shape):
            continue
        aligned = small.reshape(shape)
        slices = (large.take([i], axes[0]) for i in (0, -1)) if len(axes) == 1 else ()
        reduced = (large.sum(axes, keepdims=True), large.mean(axes, keepdims=True), *slices)
        pairs = [
            (np.broadcast_to(aligned, large.shape), large),
            *((array, aligned) for array in reduced),
        ]
        for sentences, pair in zip(_reductions(axes_named(axes)), pairs, strict=False):
            yield _Explanation(sentences[column], *pair)


def _sets_of_axes(array: NumericArray) -> Iterator[tuple[int, ...]]:
    """Yield sets of axes that are longer than 1, small sets first."""
    longer = [i for i, n in enumerate(array.shape) if n > 1]
    for count in range(1, min(len(longer), _MOST_AXES) + 1):
        yield from combinations(longer, count)


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)
