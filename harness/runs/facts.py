"""What the arguments of a call have in common, from a fixed list of properties.

They are looked up, and never guessed: each is a property that makes a wrong formula give the right
number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np

from harness.core.run import NUMERIC, NumericArray
from harness.runs.heap import CannotCompare, arrays_in, copied, is_tensor

PropertyKind = Literal[
    "no-gradient",
    "equal-arrays",
    "ones",
    "zeros",
    "equal-shapes",
    "square",
    "one-element",
    "one-sign",
    "scale-1",
    "none",
    "not-run",
    "all-require-grad",
    "contiguous",
]
PROPERTIES: tuple[PropertyKind, ...] = get_args(PropertyKind)
"""The properties, the most telling one first."""

Fact = tuple[PropertyKind, str]
"""A property of an argument, of two (`a, b`) that are equal, or of all if the name is empty."""

NOT_RUN: Fact = ("not-run", "")
"""The property of calls that do not run the changed code; of the others, only None explains it."""

_OF_ALL: frozenset[PropertyKind] = frozenset(
    {"equal-shapes", "not-run", "all-require-grad", "contiguous"}
)
_OF_ALL_OR_ONE: frozenset[PropertyKind] = frozenset({"no-gradient", "square"})


def is_possible(fact: Fact) -> bool:
    """Whether a property may have this name, or none: `facts_of` gives no other ones."""
    kind, name = fact
    return kind in _OF_ALL_OR_ONE or (kind in _OF_ALL) == (not name)


MOST_EQUAL = 5
"""The number of equal arrays of which all pairs are properties."""


def facts_of(arguments: Mapping[str, Any], operands: Collection[str] = ()) -> set[Fact]:
    """Return the properties of a call: each with the name of an argument, or "" for all of them.

    `operands` are the arguments that may be equal by chance: neither cotangents, nor other names.
    """
    facts: set[Fact] = set()
    shapes: set[tuple[int, ...]] = set()
    """Arguments that are shapes."""
    arrays: dict[str, NumericArray] = {}
    without_axes = 0
    operated = {name: arguments[name] for name in operands if name in arguments}
    facts |= {("equal-arrays", name) for name in _equal(operated)}
    contiguous = True
    for name, value in arguments.items():
        if value is None:
            facts.add(("none", name))
        if getattr(value, "requires_grad", None) is False:
            facts.add(("no-gradient", name))
        if isinstance(value, tuple) and value and all(type(item) is int for item in value):
            shapes.add(tuple(value))
            continue
        for label, part in _arrays(value, name):
            if isinstance(part, bool | np.bool_):
                continue
            array = copied(part)
            if array.ndim == 0:
                if not isinstance(part, int | float | complex) or isinstance(part, np.generic):
                    shapes.add(())
                    without_axes += not isinstance(part, np.generic)
                facts |= {("scale-1", label)} if array.dtype.kind in "iuf" and array == 1 else set()
                continue
            arrays[label] = array
            if is_tensor(part):
                contiguous &= part.is_contiguous()
            elif isinstance(part, np.ndarray):
                contiguous &= part.flags.c_contiguous
            facts |= {(kind, label) for kind in _properties(array)}
    needed = getattr(next(iter(arguments.values()), None), "needs_input_grad", ())
    if needed and all(needed):
        facts.add(("all-require-grad", ""))
    matrices = [array for array in arrays.values() if array.ndim == 2]
    if len(matrices) > 1 and all(len(set(array.shape)) == 1 for array in matrices):
        facts.add(("square", ""))
    different = shapes | {array.shape for array in arrays.values()}
    is_several = len(arrays) + len(shapes) > 1 if arrays else without_axes > 1
    if is_several and len(different) == 1:
        facts.add(("equal-shapes", ""))
    if arrays and contiguous:
        facts.add(("contiguous", ""))
    return facts


def _arrays(value: Any, name: str) -> list[tuple[str, Any]]:
    found = list(arrays_in(value, name))
    if hasattr(value, "saved_tensors"):
        try:
            saved = value.saved_tensors
        except RuntimeError as error:
            raise CannotCompare from error
        found += [(f"saved_tensors[{i}]", tensor) for i, tensor in enumerate(saved)]
    return [(label, part) for label, part in found if part is not None]


def _equal(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the pairs of arguments whose arrays are equal: often, the same one is passed twice.

    An argument is an array, a node of a graph with an array as `data`, or a list of these. A node
    and an array are not a pair, since a rule often has names for both.
    """
    names: dict[object, list[str]] = {}
    for name, value in arguments.items():
        parts = {name: value}
        if isinstance(value, tuple | list):
            parts = {f"{name}[{i}]": part for i, part in enumerate(value)}
        for label, part in parts.items():
            is_array = is_tensor(part) or isinstance(part, np.ndarray)
            array = part if is_array else getattr(part, "data", None)
            if isinstance(array, np.ndarray) or is_tensor(array):
                numbers = copied(array)
                if numbers.size and numbers.dtype.kind in NUMERIC:
                    key = type(part), numbers.shape, numbers.dtype.str, numbers.tobytes()
                    names.setdefault(key, []).append(label)
    for labels in names.values():
        for pair in combinations(sorted(labels)[:MOST_EQUAL], 2):
            yield ", ".join(pair)


def _properties(array: NumericArray) -> set[PropertyKind]:
    kinds: set[PropertyKind] = set()
    if array.size == 1:
        return {"one-element"}
    if array.ndim == 2 and array.shape[0] == array.shape[1]:
        kinds.add("square")
    if array.dtype.kind in "fiu" and array.size:
        if np.all(array == 1):
            kinds.add("ones")
        elif not array.any():
            kinds.add("zeros")
        elif np.all(array >= 0) or np.all(array <= 0):
            kinds.add("one-sign")
    return kinds
