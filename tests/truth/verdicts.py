"""What is true of a break on a probe, by two records of a patched and an unpatched copy."""

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tests.truth.recorder import Call, Numbers, Record

Array = NDArray[Any]

ROUNDINGS = 1e6
"""How many roundings of the largest number still count as equal. Real errors are far larger."""


def is_near(actual: Array, expected: Array, moved: float = 0.0) -> bool:
    """Whether two arrays hold the same numbers up to rounding.

    `moved` is how far the expected one moves if the inputs change in the last place.
    """
    if actual.shape != expected.shape:
        return False
    kinds = {actual.dtype.kind, expected.dtype.kind}
    if not kinds & set("fc"):
        return bool((actual == expected).all())
    precision = max(np.finfo(a.dtype).eps for a in (actual, expected) if a.dtype.kind in "fc")
    one, other = actual.astype(np.complex128), expected.astype(np.complex128)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    if same.all():
        return True
    finite = np.isfinite(one) & np.isfinite(other)
    if not (same | finite).all():
        return False
    scale = max(np.abs(one[finite]).max(), np.abs(other[finite]).max(), 1e-300)
    slack = scale * min(precision * ROUNDINGS, 3e-3 if precision > 1e-5 else 1e-3) + 100 * moved
    return bool(np.abs(one - other)[finite].max() <= slack)


# ----- The outcome -----


def true_outcome(broken: Record, clean: Record, moved: Sequence[Record]) -> str:
    """Return `crash`, `silent-corruption` or `disguised-correct`.

    `moved` are records of the unpatched copy with inputs that differ in the last place.
    """
    if broken.error:
        return "disguised-correct" if broken.error == clean.error else "crash"
    return "silent-corruption" if differences(broken, clean, moved) else "disguised-correct"


def differences(broken: Record, clean: Record, moved: Sequence[Record] = ()) -> list[str]:
    """Return what a learner could see to differ: where, and how."""
    if clean.error:
        return ["accepted"]
    found = []
    for label in dict.fromkeys([*clean.observed, *broken.observed]):
        actual, expected = broken.observed.get(label), clean.observed.get(label)
        if actual is None or expected is None:
            if actual is not expected:
                found.append(f"{label}: present")
            continue
        if actual.shape != expected.shape:
            found.append(f"{label}: shape")
        elif actual.dtype != expected.dtype:
            found.append(f"{label}: dtype")
        elif not is_near(actual, expected, _movement(label, expected, moved)):
            found.append(f"{label}: value")
    found += [f"{one} and {other}: aliased" for one, other in broken.shared - clean.shared]
    if broken.generator_moved and not clean.generator_moved:
        found.append("NumPy's generator: state")
    return found


def _movement(label: str, expected: Array, moved: Sequence[Record]) -> float:
    if expected.dtype.kind not in "fc":
        return 0.0
    others = [record.observed.get(label) for record in moved]
    with np.errstate(all="ignore"):
        moves = [
            np.abs(other - expected)
            for other in others
            if other is not None and other.shape == expected.shape
        ]
    return float(max((np.nanmax(move, initial=0.0) for move in moves), default=0.0))


# ----- Infection -----


def infection(broken: Record, clean: Record) -> Literal["wrong value", "no wrong value", "unclear"]:
    """Whether the changed code ever produced a wrong number.

    Proof of a wrong value: the same call, with the same numbers, gives other numbers or leaves
    others behind. Proof of the opposite: each node receives the same numbers, and all calls are the
    same, or all numbers that any function returns are. What is left of a sum of zero is rounding.
    """
    residue = max((_rounding_of(value) for value in clean.values), default=0.0)
    same_calls = len(broken.calls) == len(clean.calls)
    for actual, expected in zip(broken.calls, clean.calls, strict=False):
        same_arguments = _same(actual.arguments, expected.arguments, residue)
        if actual.function != expected.function or not same_arguments:
            same_calls = False
            break
        if not _same_ends(actual, expected, residue):
            return "wrong value"
    received = ([rule.received for rule in record.rules] for record in (broken, clean))
    if not _same_sets(*received, residue):
        return "unclear"
    if same_calls or _same_sets(broken.values, clean.values, residue):
        return "no wrong value"
    return "unclear"


def _same_sets(some: Numbers, others: Numbers, residue: float) -> bool:
    one, other = _distinct(some), _distinct(others)
    return _all_in(one, other, residue) and _all_in(other, one, residue)


def _rounding_of(array: Array) -> float:
    """Return the rounding error of the largest number."""
    if array.dtype.kind not in "fc":
        return 0.0
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max(initial=0.0)) * float(np.finfo(array.dtype).eps)


def _same_ends(actual: Call, expected: Call, residue: float) -> bool:
    return _same(actual.result, expected.result, residue) and _same(
        actual.arguments_after, expected.arguments_after, residue
    )


def _same(actual: Numbers, expected: Numbers, residue: float) -> bool:
    pairs = zip_longest(actual, expected)
    return all(
        a is not None and b is not None and _are_same_numbers(a, b, residue) for a, b in pairs
    )


def _are_same_numbers(actual: Array, expected: Array, residue: float) -> bool:
    """Whether two arrays are the same, or one is what the other broadcasts to."""
    try:
        return is_near(*np.broadcast_arrays(actual, expected), residue)
    except ValueError:
        return False


def _distinct(values: Iterable[Array]) -> list[Array]:
    """Return the arrays without repetitions, of the exact same numbers."""
    return list({(a.shape, a.dtype.kind, a.tobytes()): a for a in values}.values())


def _all_in(some: Sequence[Array], others: Sequence[Array], residue: float) -> bool:
    return all(any(_are_same_numbers(a, b, residue) for b in others) for a in some)


# ----- Sentences -----

_ARRAY = r"(\[[-+\d\s,.einaf\[\]]*\]|-?[\d.]+(?:e[+-]?\d+)?|nan|-?inf)"
_PASSED = re.compile(
    r"^`(?P<op>\w+)`(?: \(number \d+ of \d+ from the inputs\))? passed operand (?P<index>\d) "
    rf"\(.*?\) the gradient {_ARRAY}, expected {_ARRAY}(?: \(.*\))?; what"
)
_GAVE = re.compile(
    r"^the forward pass of `(?P<op>\w+)`(?: \(number \d+ of \d+ from the inputs\))? gave the value "
    rf"{_ARRAY}, expected {_ARRAY}"
)
_IS = re.compile(rf"^(?P<name>[\w ]+(?:\.grad)?) is {_ARRAY}, expected {_ARRAY}(?:;|$)")


def false_sentences(report: dict[str, Any], broken: Record, clean: Record) -> Iterable[str]:
    """Yield the sentences of a report on a silently wrong run that the records refute."""
    if match := _IS.match(report["evidence"]):
        name, actual, expected = match["name"], *_numbers(match)
        for record, shown in ((broken, actual), (clean, expected)):
            array = record.observed.get(name)
            if array is None or not _prints_as(array, shown):
                yield report["evidence"]
    place = report["first_divergence"] or ""
    if match := _PASSED.match(place):
        for record, shown in zip((broken, clean), _numbers(match), strict=True):
            if not any(
                rule.op == match["op"]
                and int(match["index"]) < len(rule.passed)
                and (array := rule.passed[int(match["index"])]) is not None
                and _prints_as(array, shown)
                for rule in record.rules
            ):
                yield place
    if match := _GAVE.match(place):
        for record, shown in zip((broken, clean), _numbers(match), strict=True):
            if not any(_prints_as(value, shown) for value in record.values):
                yield place


def _numbers(match: re.Match[str]) -> tuple[list[float], list[float]]:
    actual, expected = match.groups()[-2:]
    return _read(actual), _read(expected)


def _read(text: str) -> list[float]:
    return [float(word) for word in re.findall(r"-?(?:\d[\d.]*(?:e[+-]?\d+)?|inf)|nan", text)]


def _prints_as(array: Array, shown: Sequence[float]) -> bool:
    """Whether the array's numbers are those shown, which are rounded."""
    flat = np.asarray(array, float).reshape(-1)
    return len(flat) == len(shown) and np.allclose(flat, shown, rtol=2e-3, equal_nan=True)
