"""The fingerprint: the simplest explanation of a wrong array by the correct one.

Each explanation is a sentence together with the array that it predicts. It is said only if its
prediction came true, so nothing is claimed that does not reproduce the array. They are tried in the
order of simplicity, and the first that holds is the fingerprint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np

from harness.answer_key.margin import agree, deviation, rounding_of, widened, wrong_entries
from harness.answer_key.naming import axes_named, factor_named, listed, region_named, slices_named
from harness.core.run import NumericArray

_MOST_AXES = 5  # of arrays whose permutations and sets of axes are searched


class _Explanation(NamedTuple):
    sentence: str
    predicted: NumericArray
    observed: NumericArray
    """What the prediction has to agree with."""


def fingerprint(
    broken: NumericArray, correct: NumericArray, *, sizes: Mapping[str, int] = {}
) -> str | None:
    """How `broken` follows from `correct`, in a short sentence; None where nothing simple fits.

    Any dtypes of numbers, any shapes. `sizes` names lengths of the problem (`"axis 1 of b": 5`), by
    which a factor is explained. Where the arrays are too special for an explanation to mean
    anything (a single number is always *some* multiple of another), only what is remarkable is
    said. Never raises.
    """
    if not (broken.size and correct.size):
        return None
    rounding = rounding_of(broken, correct)
    mine, right = widened(broken), widened(correct)
    with np.errstate(all="ignore"):
        if agree(mine, right, rounding):
            return None if broken.dtype == correct.dtype else f"the same numbers, as {broken.dtype}"
        alike = mine.shape == right.shape
        found = _explain(mine, right, sizes, rounding) if alike else _explain_shape(mine, right)
        for sentence, predicted, observed in found:
            if agree(predicted, observed, rounding):
                return sentence
    return None


def _explain(
    mine: NumericArray, right: NumericArray, sizes: Mapping[str, int], rounding: float
) -> Iterator[_Explanation]:
    yield from _by_entry(mine, right, sizes, rounding)
    yield from _transposed(mine, right)
    yield from _reversed(mine, right)
    for axis in range(right.ndim):
        yield from _reordered(mine, right, axis)
        yield from _spread_again(mine, right, axis)
    yield from _constant(mine)
    yield from _in_parts(mine, right, sizes, rounding)
    in_order = np.sort(right, axis=None), np.sort(mine, axis=None)
    yield _Explanation("the numbers of the correct one in another order", *in_order)


# ----- Entry by entry -----


def _by_entry(
    mine: NumericArray, right: NumericArray, sizes: Mapping[str, int], rounding: float
) -> Iterator[_Explanation]:
    """One rule for all entries, wherever they stand."""
    every = "all " if mine.size > 1 else ""
    # Zero is what adds nothing to the correct one: what rounding left of a sum of zero counts.
    finite = np.where(np.isfinite(right), right, 0)
    yield _Explanation(f"{every}zero", finite + mine, finite)
    yield _Explanation(f"{every}NaN", np.full_like(right, np.nan), mine)
    yield _Explanation(f"{every}infinite", np.copysign(np.inf, mine.real), mine)
    yield _Explanation(f"{every}NaN or infinite", np.where(np.isfinite(mine), np.nan, mine), mine)
    yield _Explanation("the sign is flipped", -right, mine)
    yield from _factor(mine, right, sizes, rounding)
    if _varies(right, rounding):
        offset = np.median((mine - right).real)
        yield _Explanation(f"the correct one plus {offset:.4g}", right + offset, mine)
        yield from _rounded(mine, right)


def _factor(
    mine: NumericArray, right: NumericArray, sizes: Mapping[str, int], rounding: float
) -> Iterator[_Explanation]:
    usable = np.where(np.isfinite(mine) & np.isfinite(right), np.abs(right), 0)
    largest = np.unravel_index(usable.argmax(), right.shape)
    factor = float((mine[largest] / right[largest]).real) if usable[largest] else 0.0
    if factor:
        sentence, remarkable = factor_named(factor, sizes, rounding)
        if remarkable or _varies(np.abs(right[right != 0]), rounding):
            yield _Explanation(sentence, factor * right, mine)


def _varies(array: NumericArray, rounding: float) -> bool:
    """Whether it holds two different numbers: for a single one every rule can be made to fit."""
    finite = array[np.isfinite(array)]
    return bool(finite.size) and not agree(finite, np.full_like(finite, finite[0]), rounding)


def _rounded(mine: NumericArray, right: NumericArray) -> Iterator[_Explanation]:
    if right.dtype.kind == "c":
        return
    yield _Explanation("the correct one truncated to whole numbers", np.trunc(right), mine)
    for dtype in (np.dtype(np.float32), np.dtype(np.float16)):
        rounded = right.astype(dtype).astype(right.dtype)
        yield _Explanation(f"the correct one rounded to {dtype}", rounded, mine)
    # Computed in float32 is more than rounded to it once: the last bits differ.
    if 1e-10 < deviation(mine, right) < 16 * np.finfo(np.float32).eps:
        yield _Explanation("right to the seven digits of float32, no further", mine, mine)


def _constant(mine: NumericArray) -> Iterator[_Explanation]:
    if mine.size > 1:
        number = mine.flat[0]
        yield _Explanation(f"{number:.4g} in every entry", np.full_like(mine, number), mine)


def _in_parts(
    mine: NumericArray, right: NumericArray, sizes: Mapping[str, int], rounding: float
) -> Iterator[_Explanation]:
    """One rule for the entries that are wrong, a factor for each slice, or only the places."""
    wrong = wrong_entries(mine, right, rounding)
    some = not wrong.all()
    where, telling = region_named(wrong, right)
    if some:
        parts = mine[wrong], right[wrong]
        for part in (*_by_entry(*parts, sizes, rounding), *_constant(mine[wrong])):
            yield part._replace(sentence=f"right except {where}: {part.sentence}")
    for axis in range(right.ndim):
        yield from _factor_by_slice(mine, right, axis)
    if some and telling:
        yield _Explanation(f"right except {where}", mine[~wrong], right[~wrong])


def _factor_by_slice(mine: NumericArray, right: NumericArray, axis: int) -> Iterator[_Explanation]:
    """A factor for each row, by least squares, where a row has more than one number to show it."""
    others = tuple(i for i in range(right.ndim) if i != axis)
    factors = (mine * right).sum(others, keepdims=True) / (right**2).sum(others, keepdims=True)
    if np.isfinite(factors).all() and np.count_nonzero(right, others).min() > 1:
        names = slices_named(range(right.shape[axis]), right.ndim, axis)
        digits = 4 if np.abs(factors - 1).max() > 1e-3 else 8
        numbers = listed([f"{factor:.{digits}g}" for factor in factors.flat])
        yield _Explanation(f"{names} of the correct one times {numbers}", factors * right, mine)


# ----- The same numbers in other places -----


def _transposed(mine: NumericArray, right: NumericArray) -> Iterator[_Explanation]:
    if right.ndim == mine.ndim <= _MOST_AXES:
        for axes in [*permutations(range(right.ndim))][1:]:
            how = "transposed" if right.ndim == 2 else f"with its axes in the order {axes}"
            yield _Explanation(f"the correct one {how}", right.transpose(axes), mine)


def _reversed(mine: NumericArray, right: NumericArray) -> Iterator[_Explanation]:
    for axes in _sets_of_axes(right):
        sentence = f"the correct one reversed along {axes_named(axes)}"
        yield _Explanation(sentence, np.flip(right, axes), mine)


def _reordered(mine: NumericArray, right: NumericArray, axis: int) -> Iterator[_Explanation]:
    """One slice repeated, all of them shifted, or permuted: few orders are worth a try."""
    length = right.shape[axis]
    here, there = _summary(mine, axis), _summary(right, axis)
    for first in np.abs(there - here[0]).argsort()[:4].tolist():
        name = slices_named([first], right.ndim, axis)
        repeated = right.take([first] * length, axis)
        yield _Explanation(f"{name} of the correct one, repeated", repeated, mine)
        shift = min(-first % length, -first % length - length, key=abs)
        sentence = f"the correct one shifted by {shift} along {axes_named([axis])}"
        yield _Explanation(sentence, np.roll(right, shift, axis), mine)
    order = there.argsort()[here.argsort().argsort()]
    names = slices_named(order.tolist(), right.ndim, axis)
    yield _Explanation(f"{names} of the correct one, in this order", right.take(order, axis), mine)


def _summary(array: NumericArray, axis: int) -> NumericArray:
    """One number for each slice, by which to recognise it."""
    rows = np.moveaxis(array.real, axis, 0).reshape(array.shape[axis], -1)
    weights = np.cos(np.arange(1, rows.shape[1] + 1))
    return np.asarray(np.where(np.isfinite(rows), rows, 0) @ weights)


def _spread_again(mine: NumericArray, right: NumericArray, axis: int) -> Iterator[_Explanation]:
    for how, reduce in (("sum", np.sum), ("mean", np.mean)):
        everywhere = np.broadcast_to(reduce(right, axis=axis, keepdims=True), right.shape)
        sentence = f"the {how} of the correct one over {axes_named([axis])}, repeated along it"
        yield _Explanation(sentence, everywhere, mine)


# ----- Another shape -----


def _explain_shape(mine: NumericArray, right: NumericArray) -> Iterator[_Explanation]:
    if _squeezed(mine.shape) == _squeezed(right.shape):
        how = ("moved", "too many", "missing")[np.sign(mine.ndim - right.ndim)]
        sentence = f"the same numbers, with an axis of length 1 {how}"
        yield _Explanation(sentence, mine.reshape(right.shape), right)
    yield from _transposed(mine, right)
    if mine.size == right.size:
        sentence = "the same numbers in the same order, in another shape"
        yield _Explanation(sentence, mine.reshape(right.shape), right)
    elif mine.size > right.size:
        yield from _reduced(mine, right, column=0)
    else:
        yield from _reduced(right, mine, column=1)


_REDUCTIONS = (
    ("the correct one, repeated along {}", "not repeated along {}"),
    ("not summed over {}: its sum is the correct one", "the correct one, summed over {}"),
    ("not averaged over {}: its mean is the correct one", "the correct one, averaged over {}"),
    ("its first slice along {} is the correct one", "the first slice of it along {}"),
    ("its last slice along {} is the correct one", "the last slice of it along {}"),
)
"""How `short` follows from `long`: said of the broken one where that is `long`, where `short`."""


def _reduced(long: NumericArray, short: NumericArray, column: int) -> Iterator[_Explanation]:
    for axes in _sets_of_axes(long):
        kept = tuple(1 if i in axes else n for i, n in enumerate(long.shape))
        if _squeezed(kept) != _squeezed(short.shape):
            continue
        wanted = short.reshape(kept)
        slices = (long.take([i], axes[0]) for i in (0, -1)) if len(axes) == 1 else ()
        reduced = (long.sum(axes, keepdims=True), long.mean(axes, keepdims=True), *slices)
        pairs = [(np.broadcast_to(wanted, long.shape), long), *((each, wanted) for each in reduced)]
        for sentences, pair in zip(_REDUCTIONS, pairs, strict=False):
            yield _Explanation(sentences[column].format(axes_named(axes)), *pair)


def _sets_of_axes(array: NumericArray) -> Iterator[tuple[int, ...]]:
    """Sets of axes that are longer than 1, small sets first."""
    longer = [i for i, n in enumerate(array.shape) if n > 1]
    for count in range(1, min(len(longer), _MOST_AXES) + 1):
        yield from combinations(longer, count)


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)
