"""Names for factors, for slices of an array and for regions of it, as parts of messages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce

import numpy as np

from harness.core.message import Message, message, verbatim
from harness.core.run import NumericArray


def factor_named(
    factor: float, sizes: Mapping[Message, int], rounding: float
) -> tuple[Message, bool]:
    """Return a message for `factor` times the correct one, and whether the factor is remarkable.

    A factor is remarkable if it is a power of one of the `sizes`, a small integer, or 1 over one.
    """
    size = abs(factor)
    whole, inverse = (_whole(number, rounding) for number in (size, 1 / size))
    number = f"{whole}" if whole else f"1/{inverse}" if inverse else f"{size:.4g}"
    text = f"{'-' if factor < 0 else ''}{number}"
    origin = _origin(size, sizes, rounding)
    integer = whole or inverse
    if not origin and integer >= 64 and integer.bit_count() == 1:
        exponent = integer.bit_length() - 1
        origin = message(
            "{number} is 2 to the power of {exponent}", number=integer, exponent=exponent
        )
    if origin:
        named = message("{factor} times the correct one; {origin}", factor=text, origin=origin)
        return named, True
    return message("{factor} times the correct one", factor=text), 0 < integer <= 16


def _whole(number: float, rounding: float) -> int:
    """Return the integer equal to `number` up to rounding; 0 if none or too large."""
    near = round(number) if number < 1e6 else 0
    return near if near and math.isclose(number, near, rel_tol=rounding) else 0


def _origin(size: float, sizes: Mapping[Message, int], rounding: float) -> Message | None:
    """Return the length that a factor is a power of, with all of its names."""
    for power in (1, -1, 2, -2, 0.5, -0.5):
        fitting = {
            name: n
            for name, n in sizes.items()
            if n > 1 and math.isclose(size, float(n) ** power, rel_tol=rounding)
        }
        if fitting:
            name = reduce(lambda a, b: message("{first} and also {next}", first=a, next=b), fitting)
            return _power_named(power, next(iter(fitting.values())), name)
    return None


def _power_named(power: float, n: int, name: Message) -> Message:
    match power:
        case 1 | -1:
            return message("{n} is {name}", n=n, name=name)
        case 2 | -2:
            return message("{square} is the square of {n}, {name}", square=n * n, n=n, name=name)
        case 0.5:
            return message("that is the square root of {n}, {name}", n=n, name=name)
        case _:
            return message("that is 1 over the square root of {n}, {name}", n=n, name=name)


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
    or holds in at most a quarter of the entries.
    """
    count = int(np.count_nonzero(mask))
    few = 4 * count <= mask.size
    if count > 1:
        for name, region in _regions(expected, mask):
            if np.array_equal(mask, region):
                return name, True
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
        yield message("where the correct one is negative"), expected < 0
        yield message("where the correct one is positive"), expected > 0
        yield message("where the correct one is zero"), expected == 0
        yield message("where the correct one is not zero"), expected != 0
