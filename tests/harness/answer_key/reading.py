"""Fingerprints read literally: an interpreter of their sentences, written apart from them."""

import re
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from harness.core.run import NumericArray

Pair = tuple[NumericArray, NumericArray]


def read(
    sentence: str, broken: NumericArray, correct: NumericArray, sizes: Mapping[str, int] = {}
) -> Pair:
    """Two arrays that are equal if the sentence is true, made by following it to the letter."""
    sentence, _, origin = sentence.partition("; ")
    if origin:
        check_origin(origin, sentence, sizes)
    if sentence.startswith("correct except "):
        return read_in_part(sentence.removeprefix("correct except "), broken, correct)
    for pattern, meaning in READINGS.items():
        if result := re.fullmatch(pattern, sentence):
            return meaning(broken, correct, *result.groups())
    raise AssertionError(f"nobody can read {sentence!r}")


def check_origin(origin: str, sentence: str, sizes: Mapping[str, int]) -> None:
    """Check where a factor comes from."""
    factor = re.search(r"-?([\d./e+-]+) times", sentence)
    assert factor, sentence
    number = float(Fraction(factor[1]))
    if power := re.fullmatch(r"(\d+) is 2 to the power of (\d+)", origin):
        assert int(power[1]) == 2 ** int(power[2])
        assert int(power[1]) in (number, 1 / number)
        return
    assert not float(number).is_integer() or number > 2
    one_over = origin.startswith("that is 1 over")
    length = re.fullmatch(
        r"(?:that is (?:1 over )?the square root of )?(\d+)(?:,| is) (.*)", origin
    )
    assert length, origin
    assert [name for name, n in sizes.items() if n == int(length[1])] == [length[2]]
    exponent = (0.5 if origin.startswith("that is") else 1) * (-1 if one_over else 1)
    assert any(np.isclose(number, int(length[1]) ** e, rtol=1e-3) for e in (exponent, -exponent))


def read_in_part(sentence: str, broken: NumericArray, correct: NumericArray) -> Pair:
    where, _, rule = sentence.partition(": ")
    mask = region(where, broken, correct)
    one, other = read(rule, broken[mask], correct[mask]) if rule else (broken[mask], broken[mask])
    left, expected = broken.copy(), correct.copy()
    left[mask], expected[mask] = one, other
    return left, expected


def region(where: str, broken: NumericArray, correct: NumericArray) -> NumericArray:
    places = np.indices(correct.shape)
    row, column = places[-2:] if correct.ndim > 1 else (places, places)
    patterns = {
        "on the diagonal": row == column,
        "off the diagonal": row != column,
        "above the diagonal": row < column,
        "below the diagonal": row > column,
        "on and above the diagonal": row <= column,
        "on and below the diagonal": row >= column,
        "where the correct one is negative": correct < 0,
        "where the correct one is positive": correct > 0,
        "where the correct one is zero": correct == 0,
    }
    if where in patterns:
        return patterns[where]
    if result := re.fullmatch(r"in (rows?|columns?|slices?) ([\d, and]+?)( of axis (\d))?", where):
        name, lines, _, axis = result.groups()
        return np.isin(places[number(name, axis)], numbers(lines))
    if result := re.fullmatch(r"in (\d+) of (\d+) entries", where):
        wrong = ~np.isclose(broken, correct, equal_nan=True)
        assert [int(wrong.sum()), wrong.size] == numbers(where)
        return wrong
    entries = [numbers(entry) for entry in re.findall(r"\[(.*?)\]", where.removeprefix("at "))]
    assert entries, where
    return np.any([np.all(np.equal(places.T, entry), axis=-1).T for entry in entries], axis=0)


def numbers(words: str) -> list[int]:
    return [int(word) for word in re.findall(r"-?\d+", words)]


def number(name: str, axis: str | None) -> int:
    """The axis of slices that are called by this name."""
    return int(axis) if axis else int(name.startswith("column"))


def over(words: str) -> tuple[int, ...]:
    return tuple(numbers(words))


SLICES = r"(entries|rows|columns|slices) ([\d, and]+?)(?: of axis (\d))? of the correct one"

READINGS: dict[str, Callable[..., Pair]] = {
    "(all )?zero": lambda b, *_: (b, 0 * b),
    "(all )?zero up to rounding": lambda b, c, _: (
        b + np.abs(c[np.isfinite(c)]).max(),
        0 * b + np.abs(c[np.isfinite(c)]).max(),
    ),
    "(all )?NaN": lambda b, *_: (b, np.full_like(b, np.nan)),
    "(all )?infinite": lambda b, *_: (np.abs(b), np.full_like(b, np.inf)),
    "(all )?NaN or infinite": lambda b, *_: (np.isfinite(b), np.zeros(b.shape, bool)),
    "the sign is flipped": lambda b, c: (b, -c),
    r"(-?)([\d./e+-]+) times the correct one": lambda b, c, sign, n: (
        b,
        c * (-1 if sign else 1) * float(Fraction(n)),
    ),
    "the correct one plus (.*)": lambda b, c, n: (b, c + float(n)),
    "the correct one rounded to (.*)": lambda b, c, dtype: (b, c.astype(dtype).astype(c.dtype)),
    "every entry is a (.*) number, correct to its precision": lambda b, c, dtype: (
        np.stack([b, b]),
        np.stack([b.astype(dtype).astype(b.dtype), c]),
    ),
    "the correct one truncated to whole numbers": lambda b, c: (b, np.trunc(c)),
    "(.*) in every entry": lambda b, _, n: (b, np.full_like(b, float(n))),
    "the correct one transposed": lambda b, c: (b, c.T),
    r"the correct one with its axes in the order (\(.*\))": lambda b, c, axes: (
        b,
        c.transpose(over(axes)),
    ),
    "the correct one reversed along (.*)": lambda b, c, axes: (b, np.flip(c, over(axes))),
    "the correct one shifted by (.*) along axis (.)": lambda b, c, by, axis: (
        b,
        np.roll(c, int(by), int(axis)),
    ),
    r"(entry|row|column|slice) (\d+)(?: of axis (\d))? of the correct one, repeated": (
        lambda b, c, name, i, axis: (
            b,
            c.take([int(i)] * c.shape[number(name, axis)], number(name, axis)),
        )
    ),
    SLICES + ", in this order": (
        lambda b, c, name, order, axis: (b, c.take(numbers(order), number(name, axis)))
    ),
    r"the (sum|mean) of the correct one over axis (\d), repeated along it": (
        lambda b, c, how, axis: (
            b,
            np.repeat(getattr(np, how)(c, int(axis), keepdims=True), c.shape[int(axis)], int(axis)),
        )
    ),
    SLICES + " times (.*)": (
        lambda b, c, name, _, axis, factors: (
            np.moveaxis(b, number(name, axis), -1),
            np.moveaxis(c, number(name, axis), -1)
            * [float(f) for f in re.findall(r"-?[\d.e+-]+", factors.replace("and", ""))],
        )
    ),
    "the numbers of the correct one in another order": lambda b, c: (
        np.sort(b, axis=None),
        np.sort(c, axis=None),
    ),
    "the same numbers, with an (extra axis of length 1|axis of length 1 (?:missing|moved))": (
        lambda b, c, _: (np.squeeze(b), np.squeeze(c))
    ),
    "the same numbers in the same order, in another shape": lambda b, c: (b.ravel(), c.ravel()),
    "the correct one, repeated along (.*)": lambda b, c, axes: repeated(b, c, over(axes)),
    "not repeated along (.*)": lambda b, c, axes: repeated(c, b, over(axes)),
    "not (summed|averaged) over (.*): its (sum|mean) is the correct one": (
        lambda b, c, _, axes, how: reduced(b, c, over(axes), getattr(np, how))
    ),
    "the correct one, (summed|averaged) over (.*)": lambda b, c, how, axes: reduced(
        c, b, over(axes), np.sum if how == "summed" else np.mean
    ),
    "its (first|last) slice along axis (.) is the correct one": lambda b, c, which, axis: (
        np.squeeze(b.take(0 if which == "first" else -1, int(axis))),
        np.squeeze(c),
    ),
    "the (first|last) slice of the correct one along axis (.)": lambda b, c, which, axis: (
        np.squeeze(c.take(0 if which == "first" else -1, int(axis))),
        np.squeeze(b),
    ),
}


def repeated(long: NumericArray, short: NumericArray, axes: tuple[int, ...]) -> Pair:
    kept = [1 if i in axes else n for i, n in enumerate(long.shape)]
    return long, np.zeros_like(long) + short.reshape(kept)


def reduced(
    long: NumericArray,
    short: NumericArray,
    axes: tuple[int, ...],
    how: Callable[..., NumericArray],
) -> Pair:
    return np.squeeze(how(long, axis=axes)), np.squeeze(short)
