"""Which of the numbers that a backward rule computes are kept.

A rule may also compute a cotangent for an operand that needs no gradient, such as a constant. The
walk discards it, so no assertion can look at it. Which operands need a gradient is what their
attribute `requires_grad` says, or None in the place of an operand. Nor can an assertion look at the
shape of a cotangent that the next rule broadcasts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from types import FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from harness.core.rounding import wrong_entries
from harness.core.run import NumericArray
from harness.runs.heap import attributes

MOST_FRAMES = 10
"""The number of calling functions in which the node of a rule is looked for."""

MOST_RULES = 50
"""The number of rules that a cotangent of another shape is followed through."""


def node_of_rule(frame: FrameType) -> tuple[object, bool] | None:
    """Return the node whose rule runs; None if not known.

    Also returns whether `frame` is that of the rule, and not of a function that the rule calls.
    The node is the first object, among the variables of the callers, that stores the function that
    runs.
    """
    callee = frame
    for caller in islice(_callers(frame), MOST_FRAMES):
        for value in list(caller.f_locals.values()):
            if any(rule.__code__ is callee.f_code for rule in _stored_functions(value)):
                return value, callee is frame
        callee = caller
    return None


def needed_by_node(frame: FrameType) -> tuple[Sequence[bool], bool] | None:
    """Return which operands of the node whose rule runs need a gradient; None if not known.

    Also returns whether `frame` is that of the rule.
    """
    found = node_of_rule(frame)
    return found and (needed_by_operands(found[0]), found[1])


def needed_by_operands(node: object) -> Sequence[bool]:
    """Return which operands of a node need a gradient; empty if that is not known."""
    return [bool(getattr(one, "requires_grad", False)) for one in operands_of(node)]


def operands_of(node: object) -> Sequence[object]:
    """Return the nodes that a node was computed from; empty if they are not known."""
    for operands in attributes(node).values():
        if isinstance(operands, tuple | list | set | frozenset) and _are_operands(operands):
            return list(operands)
    return []


def is_only_broadcast(actual: NumericArray, expected: NumericArray) -> bool:
    """Whether two arrays have different shapes, and are equal once one of them is broadcast."""
    if actual.shape == expected.shape:
        return False
    try:
        one, other = np.broadcast_arrays(actual, expected)
    except ValueError:
        return False
    return one.shape in (actual.shape, expected.shape) and not wrong_entries(one, other).any()


class Absorption:
    """Whether the rules of a graph broadcast a cotangent whose shape differs from the expected one.

    Then no gradient shows the difference: the rule of a product multiplies a single number by an
    array just as well as an array of this number. A leaf that has no gradient yet shows it.

    Parameters
    ----------
    run : callable
        Calls a rule with a cotangent; the last parameter says whether it is the changed version.
        Returns the cotangents of the operands.
    """

    def __init__(self, run: Callable[[Callable[..., Any], NumericArray, bool], Any]) -> None:
        self._run, self._left = run, MOST_RULES

    def holds(self, node: object, actual: NumericArray, expected: NumericArray) -> bool:
        """Whether the difference between these cotangents of a node is absorbed."""
        rules, operands = list(_stored_functions(node)), operands_of(node)
        if not operands:
            gradient = getattr(node, "grad", None)
            return isinstance(gradient, np.ndarray) and gradient.shape == expected.shape
        self._left -= 1
        if len(rules) != 1 or self._left < 0:
            return False
        pair = [
            _listed(self._run(rules[0], cotangent, is_changed))
            for cotangent, is_changed in ((actual, True), (expected, False))
        ]
        if not all(len(found) == len(operands) for found in pair):
            return False
        return all(
            self._is_same(operand, *map(np.asarray, cotangents))
            for operand, *cotangents in zip(operands, *pair, strict=True)
            if getattr(operand, "requires_grad", False)
        )

    def _is_same(self, node: object, actual: NumericArray, expected: NumericArray) -> bool:
        if actual.shape == expected.shape:
            return not wrong_entries(actual, expected).any()
        return is_only_broadcast(actual, expected) and self.holds(node, actual, expected)


def _listed(cotangents: Any) -> Sequence[Any]:
    return cotangents if isinstance(cotangents, tuple | list) else [cotangents]


def containers_of_callers(frame: FrameType) -> Iterable[object]:
    """Yield the containers in the variables of the calling functions, and in their attributes."""
    for caller in islice(_callers(frame), MOST_FRAMES):
        for value in list(caller.f_locals.values()):
            if isinstance(value, dict | list | tuple):
                yield value
            elif not isinstance(value, type | FunctionType | MethodType | ModuleType):
                own = attributes(value).values()
                yield from (one for one in own if isinstance(one, dict | list | tuple))


def _callers(frame: FrameType) -> Iterable[FrameType]:
    caller = frame.f_back
    while caller is not None:
        yield caller
        caller = caller.f_back


def _stored_functions(value: object) -> Iterable[FunctionType | MethodType]:
    """Return the functions that an object has as attributes."""
    if isinstance(value, type | FunctionType | MethodType):
        return []
    own = attributes(value).values()
    return [item for item in own if isinstance(item, FunctionType | MethodType)]


def _are_operands(values: Collection[object]) -> bool:
    known = [type(getattr(one, "requires_grad", None)) is bool for one in values]
    return any(known) and all(
        is_known or one is None for one, is_known in zip(values, known, strict=True)
    )
