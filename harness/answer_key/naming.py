"""Names for factors, for slices of an array and for regions of it, as parts of messages."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from harness.core.message import Message, message, verbatim
from harness.core.run import NumericArray

USUAL = (0.1, 0.01, 0.001)
"""Numbers that any code may contain, such as rates of momentum, dropout or decay."""

_MOST_CONSTANTS = 40


def factor_named(
    factor: float, sizes: Mapping[Message, int], constants: Collection[float], rounding: float
) -> Message:
    """Return a message for `factor` times the correct one.

    It names the length that the factor equals only if nothing else gives the same number, such as
    another of the `sizes`, a product of two, or a combination of the `constants`.
    """
    size = abs(factor)
    whole, inverse = (_whole(number, rounding) for number in (size, 1 / size))
    number = f"{whole}" if whole else f"1/{inverse}" if inverse else format_distinctly(size)
    text = f"{'-' if factor < 0 else ''}{number}"
    origin = _origin(size, sizes, constants, rounding)
    if origin:
        return message("{factor} times the correct one; {origin}", factor=text, origin=origin)
    return message("{factor} times the correct one", factor=text)


def format_distinctly(number: float) -> str:
    """Format a number with at least four digits, and enough to show that it is not an integer."""
    texts = (f"{number:.{digits}g}" for digits in (4, 8, 12, 17))
    return next((text for text in texts if not float(text).is_integer()), f"{number:.4g}")


def _whole(number: float, rounding: float) -> int:
    """Return the integer equal to `number` up to rounding; 0 if none or too large."""
    near = round(number) if number < 1e6 else 0
    return near if near and math.isclose(number, near, rel_tol=rounding) else 0


def _origin(
    size: float, sizes: Mapping[Message, int], constants: Collection[float], rounding: float
) -> Message | None:
    """Return the origin of a factor: the only length that fits, or a large power of 2.

    A factor of 2 or 1/2 has too many possible causes. A root is named only if it is irrational.
    """

    def fits(number: float) -> bool:
        return any(math.isclose(size, n, rel_tol=rounding) for n in (number, 1 / number))

    fitting = [
        (power, name, n)
        for power in (1, 0.5, 2)
        for name, n in sizes.items()
        if n > 1 and fits(float(n) ** power)
    ]
    exponent = _exponent_of_two(size, rounding)
    products = (n * m for n, m in combinations(sizes.values(), 2) if min(n, m) > 1)
    if len(fitting) + bool(exponent) != 1 or any(map(fits, products)):
        return None
    if exponent:
        return message(
            "{number} is 2 to the power of {exponent}", number=2**exponent, exponent=exponent
        )
    ((power, name, n),) = fitting
    if n == 2 or power == 2 or _is_made_of(size, constants, rounding):
        return None
    if power == 1:
        return message("{n} is {name}", n=n, name=name)
    if math.isqrt(n) ** 2 == n:
        return None
    if size > 1:
        return message("that is the square root of {n}, {name}", n=n, name=name)
    return message("that is 1 over the square root of {n}, {name}", n=n, name=name)


def _exponent_of_two(size: float, rounding: float) -> int:
    """Return the exponent if the factor or its inverse is a power of 2, at least 64; else 0."""
    integer = _whole(size, rounding) or _whole(1 / size, rounding)
    return integer.bit_length() - 1 if integer >= 64 and integer.bit_count() == 1 else 0


def _is_made_of(size: float, constants: Collection[float], rounding: float) -> bool:
    """Whether a factor is the ratio of two constants, or of sums or differences of two.

    0, 1, the numbers in `USUAL` and 1 minus these count as constants. True if there are very many
    constants, since some of them always fit.
    """
    numbers = np.array([*{0.0, 1.0, *filter(math.isfinite, constants)}])
    if numbers.size > _MOST_CONSTANTS:
        return True
    sums = np.concatenate([np.add.outer(numbers, numbers), np.subtract.outer(numbers, numbers)])
    candidates = np.unique([*np.abs(sums).ravel(), *USUAL, *(1 - rate for rate in USUAL)])
    with np.errstate(all="ignore"):
        return bool(np.isclose(candidates[:, None] / candidates, size, rounding, 0).any())


def axes_named(axes: Sequence[int]) -> Message:
    """Return a name such as "axis 0" or "axes 0 and 1"."""
    if len(axes) == 1:
        return message("axis {axis}", axis=axes[0])
    return message("axes {axes}", axes=listed(axes))


def slices_named(indices: Sequence[int], ndim: int, axis: int) -> Message:
    """Return a name such as "row 0", "columns 1 and 2", "entry 3", "slices 0 and 1 of axis 2"."""
    numbers, is_one = listed(indices), len(indices) == 1
    if ndim == 1:
        return message("entry {n}", n=numbers) if is_one else message("entries {n}", n=numbers)
    if ndim == 2 and axis == 0:
        return message("row {n}", n=numbers) if is_one else message("rows {n}", n=numbers)
    if ndim == 2:
        return message("column {n}", n=numbers) if is_one else message("columns {n}", n=numbers)
    if is_one:
        return message("slice {n} of axis {axis}", n=numbers, axis=axis)
    return message("slices {n} of axis {axis}", n=numbers, axis=axis)


def listed(items: Iterable[object]) -> Message:
    """Return a list such as "1, 2 and 3"; only the first few if there are many."""
    texts = [str(item) for item in items]
    if len(texts) > 6:
        return message(
            "{first}, ... ({count} in all)", first=", ".join(texts[:4]), count=len(texts)
        )
    if len(texts) < 2:
        return verbatim("".join(texts))
    return message("{first} and {last}", first=", ".join(texts[:-1]), last=texts[-1])


def format_distinct(
    actual: NumericArray, expected: NumericArray, digits: int = 4
) -> tuple[str, str]:
    """Format each array on one line, with enough digits to tell them apart."""
    for enough in (digits, 8, 12, 17):
        texts = _format(actual, enough), _format(expected, enough)
        if texts[0] != texts[1]:
            break
    return texts


def _format(array: NumericArray, digits: int) -> str:
    number = f"{{:.{digits}g}}".format
    text = np.array2string(array, separator=", ", formatter={"float_kind": number})
    return " ".join(text.split())


def region_named(mask: NumericArray, expected: NumericArray) -> tuple[Message, bool]:
    """Return where the `mask` holds, and whether that is informative.

    It is if the mask is a pattern (slices, a diagonal or triangle, the sign of the expected entry)
    or holds in at most a quarter of the entries. It is not if `expected` is zero everywhere else,
    since a zero may be right by chance.
    """
    count = int(np.count_nonzero(mask))
    others = bool(expected[~mask].any())
    few = others and 4 * count <= mask.size
    if count > 1:
        for name, region in _regions(expected, mask):
            if np.array_equal(mask, region):
                return name, others
    if count <= 3:
        entries = listed([index.tolist() for index in np.argwhere(mask)])
        return message("at {entries}", entries=entries), few
    return message("in {count} of {size} entries", count=count, size=mask.size), few


def _regions(expected: NumericArray, mask: NumericArray) -> Iterator[tuple[Message, NumericArray]]:
    """Yield candidate regions, each with its name."""
    if mask.ndim > 1:
        for axis in range(mask.ndim):
            others = tuple(i for i in range(mask.ndim) if i != axis)
            lines = mask.any(others, keepdims=True)
            names = slices_named(np.flatnonzero(lines).tolist(), mask.ndim, axis)
            yield message("in {slices}", slices=names), np.broadcast_to(lines, mask.shape)
        row, column = np.ogrid[: mask.shape[-2], : mask.shape[-1]]
        for name, triangle in (
            (message("on the diagonal"), row == column),
            (message("off the diagonal"), row != column),
            (message("above the diagonal"), row < column),
            (message("below the diagonal"), row > column),
            (message("on and above the diagonal"), row <= column),
            (message("on and below the diagonal"), row >= column),
        ):
            yield name, np.broadcast_to(triangle, mask.shape)
    if expected.dtype.kind != "c":
        negative, positive = expected < 0, expected > 0
        if negative.any() and positive.any():
            yield message("where the correct one is negative"), negative
            yield message("where the correct one is positive"), positive
        yield message("where the correct one is zero"), expected == 0
