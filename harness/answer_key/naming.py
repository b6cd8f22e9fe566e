"""Words for factors, for slices of an array and for regions of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from harness.core.run import NumericArray

_POWERS = {
    1: "{n} is",
    -1: "{n} is",
    2: "{square} is the square of {n},",
    -2: "{square} is the square of {n},",
    0.5: "that is the root of {n},",
    -0.5: "that is 1 over the root of {n},",
}
"""How a factor may come from a length n: its power, and the words for it."""


def factor_named(factor: float, sizes: Mapping[str, int], rounding: float) -> tuple[str, bool]:
    """A sentence for `factor` times the correct one, and whether the factor is remarkable.

    Remarkable is a power of one of the `sizes`, a small integer, or 1 over one.
    """
    size = abs(factor)
    whole, inverse = (_whole(number, rounding) for number in (size, 1 / size))
    number = f"{whole}" if whole else f"1/{inverse}" if inverse else f"{size:.4g}"
    sentence = f"{'-' if factor < 0 else ''}{number} times the correct one"
    reason = _origin(size, sizes, rounding)
    integer = whole or inverse
    if not reason and integer >= 64 and integer.bit_count() == 1:
        reason = f"{integer} is 2 to the power of {integer.bit_length() - 1}"
    if reason:
        return f"{sentence}; {reason}", True
    return sentence, 0 < integer <= 16


def _whole(number: float, rounding: float) -> int:
    """The integer that `number` is, up to rounding; 0 where it is none or too large to tell."""
    near = round(number) if number < 1e6 else 0
    return near if near and math.isclose(number, near, rel_tol=rounding) else 0


def _origin(size: float, sizes: Mapping[str, int], rounding: float) -> str:
    """Which named lengths a factor comes from: all of them where several would fit."""
    for power, words in _POWERS.items():
        fitting = {
            name: n
            for name, n in sizes.items()
            if n > 1 and math.isclose(size, float(n) ** power, rel_tol=rounding)
        }
        if fitting:
            n = next(iter(fitting.values()))
            names = [f"the length of {name}" if "axis" in name else name for name in fitting]
            return f"{words.format(n=n, square=n * n)} {' and also '.join(names)}"
    return ""


def axes_named(axes: Sequence[int]) -> str:
    """For example "axis 0", or "axes 0 and 1"."""
    return f"{'axis' if len(axes) == 1 else 'axes'} {listed(axes)}"


def slices_named(indices: Sequence[int], ndim: int, axis: int) -> str:
    """For example "row 0", "columns 1 and 2", "entry 3", "slices 0 and 1 of axis 2"."""
    one, many = {1: [("entry", "entries")], 2: [("row", "rows"), ("column", "columns")]}.get(
        ndim, [("slice", "slices")] * ndim
    )[axis]
    of = f" of axis {axis}" if ndim > 2 else ""
    return f"{one if len(indices) == 1 else many} {listed(indices)}{of}"


def listed(items: Iterable[object]) -> str:
    """For example "1, 2 and 3"; the first few of many."""
    words = [str(item) for item in items]
    if len(words) > 6:
        return f"{', '.join(words[:4])}, ... ({len(words)} in all)"
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def told_apart(mine: NumericArray, right: NumericArray, digits: int = 4) -> tuple[str, str]:
    """Both arrays on a line each, with as many digits more as it takes to see that they differ."""
    for enough in (digits, 8, 12, 17):
        shown = _shown(mine, enough), _shown(right, enough)
        if shown[0] != shown[1]:
            break
    return shown


def _shown(array: NumericArray, digits: int) -> str:
    number = f"{{:.{digits}g}}".format
    words = np.array2string(array, separator=", ", formatter={"float_kind": number})
    return " ".join(words.split())


def region_named(mask: NumericArray, correct: NumericArray) -> tuple[str, bool]:
    """Where the `mask` holds, after "right except", and whether knowing that tells anything.

    It tells where it is a pattern (slices, a diagonal or triangle, the sign of the correct one),
    and where it is a few entries of many: at most a quarter.
    """
    count = int(np.count_nonzero(mask))
    few = 4 * count <= mask.size
    if count > 1:
        for words, region in _regions(correct, mask):
            if np.array_equal(mask, region):
                return words, True
    if count <= 3:
        return f"at {listed([index.tolist() for index in np.argwhere(mask)])}", few
    return f"in {count} of {mask.size} entries", few


def _regions(correct: NumericArray, mask: NumericArray) -> Iterator[tuple[str, NumericArray]]:
    """Candidates, each with words for it."""
    if mask.ndim > 1:
        for axis in range(mask.ndim):
            others = tuple(i for i in range(mask.ndim) if i != axis)
            lines = mask.any(others, keepdims=True)
            names = slices_named(np.flatnonzero(lines).tolist(), mask.ndim, axis)
            yield f"in {names}", np.broadcast_to(lines, mask.shape)
        row, column = np.ogrid[: mask.shape[-2], : mask.shape[-1]]
        for words, triangle in (
            ("on the diagonal", row == column),
            ("off the diagonal", row != column),
            ("above the diagonal", row < column),
            ("below the diagonal", row > column),
            ("on and above the diagonal", row <= column),
            ("on and below the diagonal", row >= column),
        ):
            yield words, np.broadcast_to(triangle, mask.shape)
    if correct.dtype.kind != "c":
        yield "where the correct one is negative", correct < 0
        yield "where the correct one is positive", correct > 0
        yield "where the correct one is zero", correct == 0
        yield "where the correct one is not zero", correct != 0
