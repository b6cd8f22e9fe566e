"""Which of the numbers that a backward rule computes are kept.

A rule may also compute a cotangent for an operand that needs no gradient, such as a constant. The
walk discards it, so no assertion can look at it. Which operands need a gradient is what their
attribute `requires_grad` says, or None in the place of an operand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from types import FrameType, FunctionType, MethodType, ModuleType

from harness.runs.heap import attributes

MOST_FRAMES = 10
"""The number of calling functions in which the node of a rule is looked for."""


def needed_by_node(frame: FrameType) -> tuple[Sequence[bool], bool] | None:
    """Return which operands of the node whose rule runs need a gradient; None if not known.

    Also returns whether `frame` is that of the rule, and not of a function that the rule calls.
    The node is the first object, among the variables of the callers, that stores the function that
    runs.
    """
    callee = frame
    for caller in islice(_callers(frame), MOST_FRAMES):
        for value in list(caller.f_locals.values()):
            if _stores(value, callee):
                return needed_by_operands(value), callee is frame
        callee = caller
    return None


def needed_by_operands(node: object) -> Sequence[bool]:
    """Return which operands of a node need a gradient; empty if that is not known."""
    for operands in attributes(node).values():
        if isinstance(operands, tuple | list | set | frozenset) and _are_operands(operands):
            return [bool(getattr(one, "requires_grad", False)) for one in operands]
    return []


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


def _stores(value: object, callee: FrameType) -> bool:
    """Whether a value has the function of a frame as an attribute."""
    if isinstance(value, type | FunctionType | MethodType):
        return False
    functions = (
        item for item in attributes(value).values() if isinstance(item, FunctionType | MethodType)
    )
    return any(function.__code__ is callee.f_code for function in functions)


def _are_operands(values: Collection[object]) -> bool:
    known = [type(getattr(one, "requires_grad", None)) is bool for one in values]
    return any(known) and all(
        is_known or one is None for one, is_known in zip(values, known, strict=True)
    )
