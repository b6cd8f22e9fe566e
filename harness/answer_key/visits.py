"""The visits of a walk as a trail: what each node received, and what it passed on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from harness.answer_key.matching import backward_passes
from harness.core.run import MORE, VISIT, Array, Digest, NumericArray, TraceStep
from harness.runs.digests import CALLS, DEPTH, NumbersDigest, add_digest


def visits(steps: Iterable[TraceStep], most: int = CALLS) -> dict[str, Digest]:
    """Return the trail of recorded walks, to be added to that of the functions.

    A node is what it computes: its op, shape and value, and those of the operands that need a
    gradient. An operand that holds the same numbers, but was not yet broadcast, makes another node,
    since it gets the sum of its copies' gradients. A node may be visited several times in a pass,
    each time with a part of its cotangent: then the sum counts. `most` visits of an op are recorded
    one by one.
    """
    trail, counts = dict[str, Digest](), Counter[str]()
    for walk in backward_passes(list(steps)):
        values = {step.index: step.value.numpy() for step in walk}
        by_node = defaultdict[int, list[TraceStep]](list)
        for step in walk:
            by_node[step.index].append(step)
        for parts in by_node.values():
            name = VISIT + parts[0].op
            number, counts[name] = counts[name], counts[name] + 1
            for end, value in (("in", _node(parts[0], values)), ("out", _given_and_passed(parts))):
                numbers = NumbersDigest(exact=True)
                numbers.add(value, 0.0 if number < most else float(number % 1009), DEPTH)
                place = number if number < most else MORE
                add_digest(trail, f"{name}#{place} {end}", numbers.digest)
    return trail


def _node(step: TraceStep, values: Mapping[int, NumericArray]) -> list[object]:
    operands = [None if index is None else values.get(index) for index in step.parents]
    arrays = [array for array in (values[step.index], *operands) if array is not None]
    shapes = str([[length for length in array.shape if length > 1] for array in arrays])
    needs = str([index is not None for index in step.parents])
    return [values[step.index], shapes, needs, *operands]


def _given_and_passed(parts: Sequence[TraceStep]) -> list[NumericArray | None]:
    """Return the cotangent of a node, and those of its operands that need one."""
    places = [place for place, parent in enumerate(parts[0].parents) if parent is not None]
    handed = [
        _total([_array(step.handed[place : place + 1]) for step in parts]) for place in places
    ]
    return [_total([step.cotangent.numpy() for step in parts]), *handed]


def _array(handed: Sequence[Array | None]) -> NumericArray | None:
    return handed[0].numpy() if handed and handed[0] else None


def _total(arrays: Sequence[NumericArray | None]) -> NumericArray | None:
    """Return the sum of arrays; None if there is none, or if their shapes differ."""
    known = [array for array in arrays if array is not None]
    if len({array.shape for array in known}) != 1:
        return None
    return np.sum(known, axis=0) if len(known) > 1 else known[0]
