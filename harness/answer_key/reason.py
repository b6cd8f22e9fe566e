"""Why a run ends as it does on this input: the values of the expressions that the patch changed.

The unbroken engine records the values of the old expressions, and the broken engine those of the
new ones (`harness.engines.changed_parts`). The first values of two expressions belong together, and
so do the second ones, as long as all earlier values are the same. So if a result is right, the
values say whether this input makes the two expressions equal; if it is wrong, the first values that
differ are those with which the error begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from harness.answer_key.naming import listed
from harness.answer_key.outcome import digests_agree
from harness.answer_key.walks import WalkGraph, backward_passes, graph_of
from harness.core.message import EMPTY, Message, joined, message, shortened, verbatim
from harness.core.rounding import agree
from harness.core.run import Part, PartValue, Run, TraceStep

MOST = 2
"""The largest number of expressions that are named."""

FEW = 6
"""The largest number of entries of an array that are shown."""

LONGEST = 48
"""The number of characters of the longest expression that is quoted."""


class _Replaced(NamedTuple):
    """An expression of the unbroken engine, beside that of the broken engine."""

    key: str
    old: Part
    new: Part


def reason_of(
    broken: Run, clean: Run, reached: Iterable[int], names: Mapping[int, str], *, is_right: bool
) -> Message:
    """Return why the broken run is right or wrong, from recorded values; empty if they do not say.

    Both runs are of the same probe and loss, with what happened inside. The values explain nothing
    if one of the sites that were `reached` changes more than the expressions that have them; then
    the walks of a right run may. `names` names leaves by their index in the clean walk.
    """
    known = {key.partition(".")[0] for key in (*broken.parts, *clean.parts)}
    reason = EMPTY
    if known.issuperset(map(str, reached)):
        every = list(_replaced(broken.parts, clean.parts))
        replaced = [one for one in every if not _is_in_the_diff(one)] or every
        explain = _of_values if is_right else _first_difference
        reason = explain(replaced, broken, clean)
    if is_right and not reason:
        return _of_walks(broken.trace, graph_of(clean.trace, names))
    return reason


def _replaced(broken: Mapping[str, Part], clean: Mapping[str, Part]) -> Iterator[_Replaced]:
    for key, old in clean.items():
        if key in broken and old.other:
            yield _Replaced(key, old, broken[key])


def _is_in_the_diff(one: _Replaced) -> bool:
    """Whether both expressions are constants: their values say nothing about the input."""
    return all(value.text == side.text for side in one[1:] for value in side.values)


def _quoted(part: Part) -> str:
    """Return the text of an expression; a long one is cut."""
    return shortened(part.text, LONGEST)


# ----- A right result -----


def _of_values(replaced: list[_Replaced], broken: Run, clean: Run) -> Message:
    """Return why a result is right, if all values could be compared."""
    if not all(map(_is_known, replaced)):
        return EMPTY
    if not all(map(_agree, replaced)):
        difference = _first_difference(replaced, broken, clean)
        if not difference:
            return EMPTY
        return message("{difference}, and no result shows it", difference=difference)
    if not all(_is_whole(part) for one in replaced for part in (one.old, one.new)):
        return EMPTY
    added, missing = _tests(broken, replaced), _tests(clean, replaced)
    if not (_are_idle(added) and _are_idle(missing)):
        return EMPTY
    parts = [
        *_equal(replaced, clean.parts, broken.parts),
        *(
            message(
                "the test `{test}` is new: here it is {value}", test=_quoted(p), value=_truth(k)
            )
            for k, p in added.items()
        ),
        *(
            message(
                "the test `{test}` is missing: here it would be {value}",
                test=_quoted(p),
                value=_truth(k),
            )
            for k, p in missing.items()
        ),
    ]
    return joined(parts[:MOST]) if parts else EMPTY


def _is_known(one: _Replaced) -> bool:
    """Whether all values are arrays, or were recorded as text."""
    values = (*one.old.values, *one.new.values)
    return all(value.shape is not None or value.text for value in values)


def _is_whole(part: Part) -> bool:
    """Whether every value was recorded, and not only the first ones."""
    return part.count == len(part.values)


def _equal(
    replaced: list[_Replaced], clean: Mapping[str, Part], broken: Mapping[str, Part]
) -> Iterator[Message]:
    """Yield which expressions have equal values; of several that say the same, the first."""
    named = list[Message]()
    for one in replaced:
        values = _equal_values(one, _neutral(one.key, clean, broken))
        if values not in named:
            named.append(values)
            old, new = _quoted(one.old), _quoted(one.new)
            yield message("`{old}` became `{new}`: {values}", old=old, new=new, values=values)


def _neutral(key: str, *sides: Mapping[str, Part]) -> tuple[str, str] | None:
    """Return the factor or term that only one expression has, and its value if that changes
    nothing.
    """
    for side in sides:
        for number in ("0", "1"):
            part = side.get(f"{key}.{number}")
            if part and _constant(part) == number:
                return _quoted(part), number
    return None


def _equal_values(one: _Replaced, neutral: tuple[str, str] | None) -> Message:
    """Return what the values of two expressions are, which are the same each time."""
    values, first = one.old.values, _shown(one.old.values[0])
    shapes = zip(values, one.new.values, strict=True)
    for old, new in shapes:
        if old.shape != new.shape:
            return message(
                "here shape {actual} instead of {expected}, with the same numbers, {value}",
                actual=new.shape,
                expected=old.shape,
                value=_shown(new),
            )
    if dtypes := _other_dtypes(one):
        return message(
            "here dtype {actual} instead of {expected}, with the same numbers",
            actual=dtypes[1],
            expected=dtypes[0],
        )
    is_array = all(value.shape is not None for value in values)
    if is_array and any(all(v.is_other for v in side.values) for side in (one.old, one.new)):
        return message("here both are the same array, {value}", value=first)
    if any(value.is_tensor for value in values):
        return message("here both are {value}, and the gradients are right too", value=first)
    if neutral:
        operand, number = neutral
        return message(
            "here `{operand}` is {value}, so both are the same", operand=operand, value=number
        )
    if one.old.count > 1 and any(value != values[0] for value in values):
        return message(
            "here both are the same all {count} times; the first time {value}",
            count=one.old.count,
            value=first,
        )
    if one.new.text == str(first):
        return message("here it is {value} anyway", value=first)
    return message("here both are {value}", value=first)


def _other_dtypes(one: _Replaced) -> tuple[str, str] | None:
    """Return the first two dtypes that differ, if both values are arrays."""
    dtypes = ((o.dtype, n.dtype) for o, n in zip(one.old.values, one.new.values, strict=False))
    return next((pair for pair in dtypes if all(pair) and pair[0] != pair[1]), None)


def _constant(part: Part) -> str | None:
    """Return the number that an expression always has in all of its entries."""
    numbers = {n for value in part.values for n in value.numbers}
    whole = _is_whole(part) and all(v.shape is not None or v.text for v in part.values)
    texts = {value.text for value in part.values if value.text}
    if whole and len(numbers) == 1 and not texts:
        return _number(numbers.pop())
    return texts.pop() if whole and len(texts) == 1 and not numbers else None


def _tests(run: Run, replaced: Sequence[_Replaced]) -> dict[str, Part]:
    """Return the tests that only this engine makes, by the value with which they change nothing."""
    operands = {f"{one.key}.{number}" for one in replaced for number in "01"}
    return {k: part for k, part in run.parts.items() if not part.other and k not in operands}


def _are_idle(tests: Mapping[str, Part]) -> bool:
    """Whether all tests had the value with which both engines do the same, each time."""
    return all(
        _is_whole(part) and {value.text for value in part.values} == {_truth(key)}
        for key, part in tests.items()
    )


def _truth(key: str) -> str:
    return str(key.endswith("1"))


# ----- A right result of a change that is more than an expression -----

SHORT = 6
"""The number of nodes of the longest walk that is shown."""


def _of_walks(broken: Sequence[TraceStep], graph: WalkGraph) -> Message:
    """Return how the backward walks agree, or how often a node is visited instead."""
    correct = list(graph.steps.values())
    if not broken or not correct or len(backward_passes(correct)) > 1:
        return EMPTY
    if len(broken) == len(correct) and all(map(_is_same_visit, broken, correct)):
        if len(correct) > SHORT:
            return message(
                "here the backward pass visits the same {count} nodes in the same order, each once "
                "and with the same gradient",
                count=len(correct),
            )
        return message(
            "here the backward pass visits {nodes}, each once and with the right gradient",
            nodes=listed(f"`{step.op or graph.names.get(step.index, 'leaf')}`" for step in correct),
        )
    for step in correct:
        visits = [one for one in broken if one.index == step.index and one.value == step.value]
        terms = [one.cotangent.numpy() for one in visits]
        if len(visits) > 1 and agree(np.sum(terms, axis=0), step.cotangent.numpy()):
            return message(
                "here the backward pass visits {node} {count} times, each time with a part of its "
                "gradient, and the parts add up to the right one",
                node=graph.name(step.index),
                count=len(visits),
            )
    return EMPTY


def _is_same_visit(one: TraceStep, other: TraceStep) -> bool:
    return (one.op, one.index, one.value) == (other.op, other.index, other.value) and agree(
        one.cotangent.numpy(), other.cotangent.numpy()
    )


# ----- A wrong result -----


def _first_difference(replaced: list[_Replaced], broken: Run, clean: Run) -> Message:
    """Return the first values that differ, if showing them says anything.

    They do not if the engines may have parted before, at a test that only one of them makes.
    """
    if _tests(broken, replaced) or _tests(clean, replaced):
        return EMPTY
    counted = [(_difference(one), number) for number, one in enumerate(replaced)]
    at, number = min(((at, n) for at, n in counted if at is not None), default=(0, -1))
    if number < 0:
        return _first_other_dtype(replaced)
    one = replaced[number]
    if one.new.text == str(_shown(one.new.values[at])) and str(_shown(one.old.values[at])):
        return message(
            "`{old}` became `{new}`: here it would be {expected}",
            old=_quoted(one.old),
            new=one.new.text,
            expected=_shown(one.old.values[at]),
        )
    difference = _unlike(one.new.values[at], one.old.values[at])
    if difference is None:
        return EMPTY
    return message(
        "`{old}` became `{new}`: here {difference}",
        old=_quoted(one.old),
        new=_quoted(one.new),
        difference=difference,
    )


def _first_other_dtype(replaced: list[_Replaced]) -> Message:
    """Return the first expression that has another dtype, if no number differs."""
    for one in replaced:
        if pair := _other_dtypes(one):
            return message(
                "`{old}` became `{new}`: here {difference}",
                old=_quoted(one.old),
                new=_quoted(one.new),
                difference=message(
                    "dtype {actual} instead of {expected}", actual=pair[1], expected=pair[0]
                ),
            )
    return EMPTY


def _unlike(actual: PartValue, expected: PartValue) -> Message | None:
    """Return how two values differ; None if what was recorded does not show it."""
    if actual.shape is not None and expected.shape is not None and actual.shape != expected.shape:
        return message(
            "shape {actual} instead of {expected}", actual=actual.shape, expected=expected.shape
        )
    shown = _shown(actual), _shown(expected)
    if "" in map(str, shown):
        return None
    if actual.shape is not None and _size(actual) > FEW:
        counts = [len(value.numbers) for value in (actual, expected)]
        rows = [v.numbers * (max(counts) if len(v.numbers) == 1 else 1) for v in (actual, expected)]
        pairs = ((_number(one), _number(other)) for one, other in zip(*rows, strict=False))
        found = next(((at, *pair) for at, pair in enumerate(pairs) if pair[0] != pair[1]), None)
        if found is None:
            return None
        return message(
            "{actual} instead of {expected} at index {index}",
            actual=found[1],
            expected=found[2],
            index=list(map(int, np.unravel_index(found[0], actual.shape))),
        )
    if str(shown[0]) == str(shown[1]):
        return None
    return message("{actual} instead of {expected}", actual=shown[0], expected=shown[1])


def _difference(one: _Replaced) -> int | None:
    """Return the position of the first values that differ in numbers or in shape."""
    for at, (old, new) in enumerate(zip(one.old.values, one.new.values, strict=False)):
        if old.shape != new.shape or not _same(old, new):
            return at
    return None


def _agree(one: _Replaced) -> bool:
    return one.old.count == one.new.count and all(
        _same(*pair) for pair in zip(one.old.values, one.new.values, strict=True)
    )


def _same(old: PartValue, new: PartValue) -> bool:
    is_array = old.shape is not None, new.shape is not None
    rounding = max(old.digest.rounding, new.digest.rounding)
    return is_array[0] == is_array[1] and digests_agree(old.digest, new.digest, rounding)


# ----- Values -----


def _shown(value: PartValue) -> Message:
    """Return a value as a reader would write it; empty if it was not recorded as text."""
    if value.shape is None:
        return verbatim(value.text)
    size = _size(value)
    numbers = value.numbers * (size if len(value.numbers) == 1 and size <= FEW else 1)
    texts = [_number(number) for number in numbers]
    if len(numbers) == size <= FEW:
        return verbatim(_nested(texts, value.shape))
    if len(numbers) == 1:
        return message("{number} everywhere, in shape {shape}", number=texts[0], shape=value.shape)
    first = ", ".join(texts[:3])
    return message("[{numbers}, ...] of shape {shape}", numbers=first, shape=value.shape)


def _size(value: PartValue) -> int:
    return prod(value.shape or ())


def _number(number: float) -> str:
    return f"{number or 0.0:.4g}"


def _nested(texts: list[str], shape: tuple[int, ...]) -> str:
    """Return numbers in the brackets of an array."""
    if not shape:
        return texts[0]
    count = len(texts) // shape[0] if shape[0] else 0
    rows = [texts[i * count : (i + 1) * count] for i in range(shape[0])]
    return f"[{', '.join(_nested(row, shape[1:]) for row in rows)}]"
