"""The fingerprint: the simplest explanation of a wrong array by the correct one.

An explanation is a message together with the array that it predicts, and holds only if it
reproduces the actual array. Explanations are tried in the order of simplicity, and the first that
holds is the fingerprint, unless it may hold by chance: a rule with a parameter must fit two
different numbers, and only one of the rules about positions may fit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np

from harness.answer_key.naming import (
    axes_named,
    factor_named,
    format_distinctly,
    listed,
    region_named,
    slices_named,
)
from harness.core.message import Message, message
from harness.core.rounding import agree, deviation, rounding_of, widened, wrong_entries
from harness.core.run import NumericArray

_MOST_AXES = 5  # of arrays whose permutations and sets of axes are searched
_CLEAR = 100  # times rounding: a smaller effect may itself be rounding
_LARGEST_FACTOR = 1e9  # a larger one has another cause, such as a reference that is zero


class Derivation(NamedTuple):
    """How an array follows from the correct one, with two arrays that agree if it does."""

    sentence: Message
    actual: NumericArray
    expected: NumericArray
    difference: str = ""
    """`actual - expected` as NumPy code, with the fields `{actual}` and `{expected}` for the arrays
    that were compared; empty if their shapes are equal."""


@dataclass(frozen=True)
class _ProblemFacts:
    """What the explanations use apart from the entries."""

    rounding: float
    sizes: Mapping[Message, int]
    constants: Collection[float]


def fingerprint(
    actual: NumericArray,
    expected: NumericArray,
    *,
    sizes: Mapping[Message, int] = {},
    constants: Collection[float] = (),
) -> Message | None:
    """Return the sentence of `find_explanation`, which has the same parameters."""
    found = find_explanation(actual, expected, sizes=sizes, constants=constants)
    return found and found.sentence


def find_explanation(
    actual: NumericArray,
    expected: NumericArray,
    *,
    sizes: Mapping[Message, int] = {},
    constants: Collection[float] = (),
) -> Derivation | None:
    """Return how `actual` follows from `expected`; None if no simple explanation fits.

    The arrays may have any shapes and numeric dtypes. `sizes` holds lengths of the problem by name,
    one of which may explain a factor, unless `constants` of the program explain it as well. Never
    raises.
    """
    if not (actual.size and expected.size):
        return None
    rounding = rounding_of(actual, expected)
    dtypes, actual, expected = (actual.dtype, expected.dtype), widened(actual), widened(expected)
    context = _ProblemFacts(rounding, sizes, constants)
    with np.errstate(all="ignore"):
        if agree(actual, expected, rounding):
            if dtypes[0] == dtypes[1]:
                return None
            sentence = message("the same numbers, as {dtype}", dtype=dtypes[0])
            return Derivation(sentence, actual, expected)
        expected = _without_residue(expected, actual, dtypes)
        if actual.shape == expected.shape:
            explanations = _explain(actual, expected, context)
        else:
            explanations = _explain_shape(actual, expected, context)
        return next((e for e in explanations if agree(e.actual, e.expected, rounding)), None)


def _without_residue(
    expected: NumericArray, actual: NumericArray, dtypes: tuple[np.dtype, ...]
) -> NumericArray:
    """Return `expected` with zeros in place of residues that rounding may have left."""
    eps = max((np.finfo(d).eps for d in dtypes if d.kind in "fc"), default=0.0)
    sizes = np.abs(np.concatenate([actual, expected], axis=None))
    scale = sizes[np.isfinite(sizes)].max(initial=0.0)
    return np.where(np.abs(expected) <= 16 * float(eps) * scale, 0, expected)


def _explain(
    actual: NumericArray, expected: NumericArray, context: _ProblemFacts
) -> Iterator[Derivation]:
    yield from _by_entry(actual, expected, context)
    constant = [*_constant(actual, context.rounding)]
    if constant and not (12 * np.abs(actual.flat[0])) % 1:
        yield from constant  # a common number, which another rule may give by chance
    moves = [*_moves(actual, expected, context.rounding)]
    yield from _only_fitting(moves, actual, expected, context.rounding)
    yield from _only_fitting(
        _moved_by_one(expected, context.rounding), actual, expected, context.rounding
    )
    if _varies(expected, context.rounding):
        yield from _offset(actual, expected, context.rounding)
        yield from _rounded(actual, expected)
    yield from constant
    yield from _in_parts(actual, expected, context)
    if _varies(expected[expected != expected.flat[0]], context.rounding):
        in_order = np.sort(actual, axis=None), np.sort(expected, axis=None)
        yield Derivation(message("the numbers of the correct one in another order"), *in_order)


# ----- Entry by entry -----


def _by_entry(
    actual: NumericArray, expected: NumericArray, context: _ProblemFacts
) -> Iterator[Derivation]:
    """Yield rules that hold for all entries, regardless of position."""
    many = actual.size > 1
    # What rounding left of a sum of zeros counts as zero: it adds nothing to the correct one.
    finite = np.where(np.isfinite(expected), expected, 0)
    if actual.any():
        zero = message("all zero up to rounding") if many else message("zero up to rounding")
    else:
        zero = message("all zero") if many else message("zero")
    yield Derivation(zero, finite + actual, finite)
    nan = message("all NaN") if many else message("NaN")
    yield Derivation(nan, actual, np.full_like(expected, np.nan))
    infinite = message("all infinite") if many else message("infinite")
    yield Derivation(infinite, actual, np.copysign(np.inf, actual.real))
    either = message("all NaN or infinite") if many else message("NaN or infinite")
    yield Derivation(either, actual, np.where(np.isfinite(actual), np.nan, actual))
    yield Derivation(message("the sign is flipped"), actual, -expected)
    yield from _factor(actual, expected, context)


def _factor(
    actual: NumericArray, expected: NumericArray, context: _ProblemFacts
) -> Iterator[Derivation]:
    usable = np.where(np.isfinite(actual) & np.isfinite(expected), np.abs(expected), 0)
    if not _varies(usable[usable > 0], context.rounding):
        return
    largest = np.unravel_index(usable.argmax(), expected.shape)
    factor = float((actual[largest] / expected[largest]).real)
    is_clear = abs(factor - 1) > _CLEAR * context.rounding
    if is_clear and 1 / _LARGEST_FACTOR < abs(factor) < _LARGEST_FACTOR:
        sentence = factor_named(factor, context.sizes, context.constants, context.rounding)
        yield Derivation(sentence, actual, factor * expected)


def _offset(actual: NumericArray, expected: NumericArray, rounding: float) -> Iterator[Derivation]:
    offset = np.median((actual - expected).real)
    if np.abs(offset) > _CLEAR * rounding * np.abs(expected).max():
        shifted = message("the correct one plus {offset}", offset=f"{offset:.4g}")
        yield Derivation(shifted, actual, expected + offset)


def _varies(array: NumericArray, rounding: float) -> bool:
    """Whether an array holds two different numbers: any rule can be made to fit a single one."""
    finite = array[np.isfinite(array)]
    return bool(finite.size) and not agree(finite, np.full_like(finite, finite[0]), rounding)


def _rounded(actual: NumericArray, expected: NumericArray) -> Iterator[Derivation]:
    if "c" in (actual.dtype.kind, expected.dtype.kind):
        return
    if np.abs(expected % 1 - 0.5).min(initial=0.5) < 0.49:  # else it is a small error
        truncated = message("the correct one truncated to whole numbers")
        yield Derivation(truncated, actual, np.trunc(expected))
    for dtype in (np.dtype(np.float32), np.dtype(np.float16)):
        if _fills(actual, dtype):
            rounded = expected.astype(dtype).astype(expected.dtype)
            sentence = message("the correct one rounded to {dtype}", dtype=dtype)
            yield Derivation(sentence, actual, rounded)
    # A computation in float32 rounds more than once, so the last bits differ.
    low = np.dtype(np.float32)
    if (
        _is_held_by(actual, low)
        and not _is_held_by(expected, low)
        and _fills(actual, low)
        and deviation(actual, expected) < 16 * np.finfo(low).eps
    ):
        sentence = message("every entry is a {dtype} number, correct to its precision", dtype=low)
        yield Derivation(sentence, actual, actual)


def _fills(array: NumericArray, dtype: np.dtype) -> bool:
    """Whether two entries need more than half of a dtype's digits; small integers do not."""
    mantissas, _ = np.frexp(array[np.isfinite(array)])
    halves = mantissas * 2.0 ** (np.finfo(dtype).nmant // 2 + 1)
    return int(np.count_nonzero(halves % 1)) > 1


def _is_held_by(array: NumericArray, dtype: np.dtype) -> bool:
    """Whether a dtype represents every entry exactly."""
    return np.array_equal(array, array.astype(dtype), equal_nan=True)


def _constant(actual: NumericArray, rounding: float) -> Iterator[Derivation]:
    if actual.size > 1 and np.isfinite(actual.flat[0]) and not _varies(actual, rounding):
        number = actual.flat[0]
        sentence = message("{number} in every entry", number=f"{number:.4g}")
        yield Derivation(sentence, actual, np.full_like(actual, number))


def _in_parts(
    actual: NumericArray, expected: NumericArray, context: _ProblemFacts
) -> Iterator[Derivation]:
    """Yield a rule for the wrong entries, a factor for each slice, or where the wrong ones are."""
    wrong = wrong_entries(actual, expected, context.rounding)
    some = not wrong.all()
    where, is_informative = region_named(wrong, expected)
    if some:
        parts = actual[wrong], expected[wrong]
        rules = [*_by_entry(*parts, context)]
        if _varies(parts[1], context.rounding):
            rules += _offset(*parts, context.rounding)
            rules += _rounded(*parts)
        for part in (*rules, *_constant(parts[0], context.rounding)):
            sentence = message("correct except {where}: {rule}", where=where, rule=part.sentence)
            yield part._replace(sentence=sentence)
    for axis in range(expected.ndim):
        yield from _factor_by_slice(actual, expected, axis, context.rounding)
    if some and is_informative:
        sentence = message("correct except {where}", where=where)
        yield Derivation(sentence, actual[~wrong], expected[~wrong])


def _factor_by_slice(
    actual: NumericArray, expected: NumericArray, axis: int, rounding: float
) -> Iterator[Derivation]:
    """Yield a factor for each slice, by least squares; a slice needs two different numbers."""
    slices = np.moveaxis(np.abs(expected), axis, 0)
    if len(slices) < 2 or not all(_varies(part[part > 0], rounding) for part in slices):
        return
    others = tuple(i for i in range(expected.ndim) if i != axis)
    factors = (actual * expected).sum(others, keepdims=True) / (expected**2).sum(
        others, keepdims=True
    )
    largest, change = np.abs(factors).max(), np.abs(factors - 1).max()
    if largest < _LARGEST_FACTOR and change > _CLEAR * rounding:
        names = slices_named(range(expected.shape[axis]), expected.ndim, axis)
        numbers = listed([_factor_of_slice(factor, rounding) for factor in factors.flat])
        sentence = message(
            "{slices} of the correct one times {factors}", slices=names, factors=numbers
        )
        yield Derivation(sentence, actual, factors * expected)


def _factor_of_slice(factor: complex, rounding: float) -> str:
    number = factor.real
    is_whole = abs(number - round(number)) <= _CLEAR * rounding * max(1.0, abs(number))
    return f"{number:.4g}" if is_whole else format_distinctly(number)


# ----- The same numbers in other places -----

_Rearrangement = tuple[Message, Callable[[NumericArray], NumericArray]]


def _only_fitting(
    moves: Iterable[_Rearrangement], actual: NumericArray, expected: NumericArray, rounding: float
) -> Iterator[Derivation]:
    """Yield the rule about positions that fits, if all that fit move the entries in the same way.

    A repeated sum or mean is one of these rules. If entries or slices are equal, several rules may
    fit by chance.
    """
    fitting = [move for move in moves if agree(move[1](expected), actual, rounding)]
    places = np.random.default_rng(0).random(expected.shape)
    if fitting and len({move(places).tobytes() for _, move in fitting}) == 1:
        yield Derivation(fitting[0][0], actual, actual)


def _moves(
    actual: NumericArray, expected: NumericArray, rounding: float
) -> Iterator[_Rearrangement]:
    for sentence, axes in _transposed(actual, expected):
        yield sentence, partial(np.transpose, axes=axes)
    yield from _reversed(expected)
    for axis in range(expected.ndim):
        yield from _reordered(actual, expected, axis, rounding)
        yield from _spread_again(axis)


def _moved_by_one(expected: NumericArray, rounding: float) -> Iterator[_Rearrangement]:
    """Yield every entry one place further, with zeros or a repeated slice in the place left over.

    Three slices are needed, and they must differ from their neighbours.
    """
    for axis in range(expected.ndim):
        slices = np.moveaxis(expected, axis, 0)
        if len(slices) < 3 or agree(slices[1:], slices[:-1], rounding):
            continue
        name = axes_named([axis])
        for step in (1, -1):
            sentences = (
                message(
                    "the correct one shifted by {step} along {axis}, and filled with zeros",
                    step=step,
                    axis=name,
                ),
                message(
                    "the correct one shifted by {step} along {axis}, and its end repeated",
                    step=step,
                    axis=name,
                ),
            )
            for sentence, repeats in zip(sentences, (False, True), strict=True):
                yield sentence, partial(_moved, axis=axis, back=step < 0, repeats=repeats)


def _moved(array: NumericArray, axis: int, *, back: bool, repeats: bool) -> NumericArray:
    slices = np.moveaxis(array, axis, 0)
    end = slices[-1:] if back else slices[:1]
    parts = (slices[1:], end if repeats else 0 * end)
    if not back:
        parts = (end if repeats else 0 * end, slices[:-1])
    return np.moveaxis(np.concatenate(parts), 0, axis)


def _transposed(
    actual: NumericArray, expected: NumericArray
) -> Iterator[tuple[Message, tuple[int, ...]]]:
    if expected.ndim == actual.ndim <= _MOST_AXES:
        for axes in [*permutations(range(expected.ndim))][1:]:
            if expected.ndim == 2:
                sentence = message("the correct one transposed")
            else:
                sentence = message("the correct one with its axes in the order {axes}", axes=axes)
            if np.take(expected.shape, axes).tolist() == [*actual.shape]:
                yield sentence, axes


def _reversed(expected: NumericArray) -> Iterator[_Rearrangement]:
    for axes in _sets_of_axes(expected):
        sentence = message("the correct one reversed along {axes}", axes=axes_named(axes))
        yield sentence, partial(np.flip, axis=axes)


def _reordered(
    actual: NumericArray, expected: NumericArray, axis: int, rounding: float
) -> Iterator[_Rearrangement]:
    """Yield one slice repeated, and all slices shifted or permuted: only a few orders are tried."""
    length = expected.shape[axis]
    sums, expected_sums = _summary(actual, axis), _summary(expected, axis)
    for first in np.abs(expected_sums - sums[0]).argsort()[:4].tolist():
        name = slices_named([first], expected.ndim, axis)
        sentence = message("{slice} of the correct one, repeated", slice=name)
        yield sentence, partial(np.take, indices=[first] * length, axis=axis)
        shift = min(-first % length, -first % length - length, key=abs)
        sentence = message(
            "the correct one shifted by {shift} along {axis}", shift=shift, axis=axes_named([axis])
        )
        yield sentence, partial(np.roll, shift=shift, axis=axis)
    order = expected_sums.argsort()[sums.argsort().argsort()]
    in_order = np.sort(expected_sums)
    if not np.isclose(in_order[1:], in_order[:-1], rounding, 0).any():  # the order is ambiguous
        names = slices_named(order.tolist(), expected.ndim, axis)
        sentence = message("{slices} of the correct one, in this order", slices=names)
        yield sentence, partial(np.take, indices=order, axis=axis)


def _summary(array: NumericArray, axis: int) -> NumericArray:
    """Return one number for each slice, to recognise it by."""
    rows = np.moveaxis(array.real, axis, 0).reshape(array.shape[axis], -1)
    weights = np.cos(np.arange(1, rows.shape[1] + 1))
    return np.asarray(np.where(np.isfinite(rows), rows, 0) @ weights)


def _spread_again(axis: int) -> Iterator[_Rearrangement]:
    name = axes_named([axis])
    total = message("the sum of the correct one over {axis}, repeated along it", axis=name)
    mean = message("the mean of the correct one over {axis}, repeated along it", axis=name)
    for sentence, reduce in ((total, np.sum), (mean, np.mean)):
        yield sentence, partial(_repeated, reduce=reduce, axis=axis)


def _repeated(array: NumericArray, reduce: Callable[..., NumericArray], axis: int) -> NumericArray:
    return np.broadcast_to(reduce(array, axis=axis, keepdims=True), array.shape)


# ----- Another shape -----


class _Term(NamedTuple):
    """An array, and the code that computes it."""

    array: NumericArray
    code: str

    def then(self, method: str, *arguments: object, **options: object) -> _Term:
        """Return the result of a method of the array."""
        written = [*map(str, arguments), *(f"{name}={value}" for name, value in options.items())]
        array = np.asarray(getattr(self.array, method)(*arguments, **options))
        return _Term(array, f"{self.code}.{method}({', '.join(written)})")

    def reshaped(self, shape: tuple[int, ...]) -> _Term:
        return self if self.array.shape == shape else self.then("reshape", *(shape or [()]))


def _compared(sentence: Message, actual: _Term, expected: _Term) -> Derivation:
    difference = f"{actual.code} - {expected.code}"
    return Derivation(sentence, actual.array, expected.array, difference)


def _explain_shape(
    actual: NumericArray, expected: NumericArray, context: _ProblemFacts
) -> Iterator[Derivation]:
    got, correct = _Term(actual, "{actual}"), _Term(expected, "{expected}")
    if _squeezed(actual.shape) == _squeezed(expected.shape):
        sentence = (
            message("the same numbers, with an axis of length 1 moved"),
            message("the same numbers, with an extra axis of length 1"),
            message("the same numbers, with an axis of length 1 missing"),
        )[np.sign(actual.ndim - expected.ndim)]
        yield _compared(sentence, got.reshaped(expected.shape), correct)
    if actual.size == expected.size:
        in_order = agree(actual.ravel(), expected.ravel(), context.rounding)
        for sentence, axes in () if in_order else _transposed(actual, expected):
            yield _compared(sentence, got, correct.then("transpose", *axes))
        sentence = message("the same numbers in the same order, in another shape")
        yield _compared(sentence, got.reshaped(expected.shape), correct)
    elif actual.size > expected.size:
        for sentences, large, small in _reduced(got, correct, context.rounding):
            yield _compared(sentences[0], large, small)
    else:
        for sentences, large, small in _reduced(correct, got, context.rounding):
            yield _compared(sentences[1], small, large)


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


_Reduction = tuple[tuple[Message, Message], _Term, _Term]


def _reduced(large: _Term, small: _Term, rounding: float) -> Iterator[_Reduction]:
    """Yield each rule that fits for only one set of axes; none for zeros, which any rule fits.

    Each comes as its two sentences and both arrays, one of them reduced or repeated.
    """
    pairs: dict[int, list[_Reduction]] = {}
    whole, part = large.array, small.array
    for axes in _sets_of_axes(whole) if part.any() else ():
        shape = tuple(1 if i in axes else n for i, n in enumerate(whole.shape))
        if _squeezed(shape) != _squeezed(part.shape):
            continue
        broadcasts = shape[whole.ndim - part.ndim :] == part.shape
        aligned = small if broadcasts else small.reshaped(shape)
        repeated = aligned._replace(array=np.broadcast_to(part.reshape(shape), whole.shape))
        axis = axes if len(axes) > 1 else axes[0]
        slices = (large.then("take", i, axis=axis) for i in (0, -1)) if len(axes) == 1 else ()
        reduced = (large.then("sum", axis=axis), large.then("mean", axis=axis), *slices)
        candidates = [(large, repeated), *((term.reshaped(part.shape), small) for term in reduced)]
        for rule, (sentences, (one, other)) in enumerate(
            zip(_reductions(axes_named(axes)), candidates, strict=False)
        ):
            if agree(one.array, other.array, rounding):
                pairs.setdefault(rule, []).append((sentences, one, other))
    for _, fitting in sorted(pairs.items()):
        if len(fitting) == 1:
            yield fitting[0]


def _sets_of_axes(array: NumericArray) -> Iterator[tuple[int, ...]]:
    """Yield sets of axes that are longer than 1, small sets first."""
    longer = [i for i, n in enumerate(array.shape) if n > 1]
    for count in range(1, min(len(longer), _MOST_AXES) + 1):
        yield from combinations(longer, count)


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)
