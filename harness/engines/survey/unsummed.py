"""What an engine does with a gradient that was not summed to the shape of its tensor.

The functions that sum are replaced by ones that return the gradient as it is. If an engine has no
such function, the buffer of a tensor is replaced by one of another shape. Both happen in a fork.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from harness.core.run import NumericArray
from harness.engines.survey.attempts import Attempts
from harness.engines.survey.numbers import Shape, sample
from harness.engines.survey.reducing import Function

Use = Callable[..., Any]
Keeper = tuple[Function, int]
"""A function that sums, and which of its arguments is the gradient."""

FULL: Shape = (4, 3)

_ARGUMENT = (
    lambda *values, **named: (*values, *named.values())[0],
    lambda *values, **named: (*values, *named.values())[1],
    lambda *values, **named: (*values, *named.values())[2],
)

_MISUSE = (TypeError, AttributeError, NameError)
"""Exceptions that a replaced function may cause in code that expects more of it."""


def unsummed(
    library: Any, ops: Mapping[str, Use], keepers: Mapping[str, list[Keeper]], attempts: Attempts
) -> dict[str, str]:
    """Return what happened in a `leaf` and `inside` the graph; nothing if it cannot be tried."""
    op = next((op for op, functions in keepers.items() if functions), "add")
    functions = keepers.get(op, [])
    tries: dict[str, Callable[[], str]] = {
        "leaf": partial(_without_sums, library, ops[op], functions, inside=False),
        "inside": partial(_without_sums, library, ops[op], functions, inside=True),
    }
    if not functions:
        tries = {
            "leaf": partial(_with_another_buffer, library, ops[op], inside=False),
            "inside": partial(_with_another_buffer, library, ops[op], inside=True),
        }
    results = {where: attempts.apart(where, work, str) for where, work in tries.items()}
    return {where: result for where, result in results.items() if result}


def row_of(library: Any) -> Shape:
    """The shape of a row that the engine stores as it is."""
    for shape in ((3,), (1, 3)):
        try:
            if library.value(library.leaf(sample(shape))).shape == shape:
                return shape
        except Exception:  # refused
            continue
    return (3,)


def _without_sums(library: Any, use: Use, functions: list[Keeper], *, inside: bool) -> str:
    """Replace the functions, and add a row to a matrix."""
    row = row_of(library)
    for function, position in functions:
        _return_argument(inspect.unwrap(function.method or function.call), position)
    a, other, full = (library.leaf(sample(s, seed)) for seed, s in enumerate((row, row, FULL)))
    narrow = use(a, other) if inside else a
    return _observe(library, use(narrow, full), a, lambda g: g.shape == FULL)


def _return_argument(function: Any, position: int) -> None:
    """Let a function return one of its arguments. Raises ValueError for a closure."""
    if inspect.ismethod(function):  # of a class, which is its first argument
        function, position = function.__func__, position + 1
    function.__code__ = _ARGUMENT[position].__code__
    function.__defaults__ = function.__kwdefaults__ = None


_MARK = 7.0


def _with_another_buffer(library: Any, use: Use, *, inside: bool) -> str:
    """Give a tensor a row as its buffer, filled with a number that shows in what is added to it."""
    attribute = re.fullmatch(r"t\.(\w+)", library.dialect.gradient)
    a, b, other = (library.leaf(sample(FULL, seed)) for seed in range(3))
    changed = use(a, other) if inside else a
    output = use(changed, b)
    buffer = getattr(changed.native, attribute[1], None) if attribute else None
    if attribute is None or not isinstance(buffer, np.ndarray) or buffer.shape != FULL:
        return ""
    setattr(changed.native, attribute[1], np.full(row_of(library), _MARK))
    return _observe(library, output, a, lambda g: bool(np.all(g == _MARK + 1)))


def _observe(
    library: Any, output: Any, leaf: Any, is_unsummed: Callable[[NumericArray], bool]
) -> str:
    try:
        library.backward(output, np.ones(FULL))
        gradient = library.gradient(leaf)
    except _MISUSE:
        return ""
    except Exception:
        return "crash"
    return "stored" if gradient is not None and is_unsummed(gradient) else ""
