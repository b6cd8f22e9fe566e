"""Other inputs for a suite that tests minigrad: each change negates a property of its calls.

The tests stay as they are. What they pass to the engine is changed on the way: the arrays of the
tensors that they create, the weights of a loss, and which tensors require a gradient.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from harness.runs.facts import PropertyKind

Change = Literal[
    "values", "weights", "batch", "longer", "rows", "columns", "layout", "frozen", "needed", "axis"
]
CHANGES: tuple[Change, ...] = get_args(Change)

NEGATING: Mapping[PropertyKind, Sequence[Change]] = {
    "no-gradient": ("needed",),
    "equal-arrays": ("values", "weights"),
    "ones": ("values", "weights"),
    "zeros": ("values", "weights"),
    "equal-shapes": ("batch", "rows", "columns", "longer"),
    "square": ("columns", "rows"),
    "one-element": ("longer", "rows", "columns"),
    "one-sign": ("values", "weights"),
    "scale-1": ("values", "weights"),
    "none": ("axis",),
    "all-require-grad": ("frozen",),
    "contiguous": ("layout",),
}
"""The changes after which calls do not have a property. Nothing is known to make code run."""

MOST_LEAVES = 2
"""The number of tensors of which one has another shape, or is frozen."""


def variants(change: Change) -> Sequence[tuple[Change, int]]:
    """Return a change, for each of the first tensors if it concerns one of them."""
    one = change in ("batch", "rows", "columns", "longer", "frozen")
    return [(change, number) for number in range(MOST_LEAVES if one else 1)]


def install(change: Change, number: int) -> Callable[[], None]:
    """Change what tests pass to the engine; return what is to be called before each test."""
    core: Any = importlib.import_module("minigrad.tensor")
    kind = core.Tensor
    count = 0
    fresh = kind.__init__

    def restart() -> None:
        nonlocal count
        count = 0

    @wraps(fresh)
    def created(self: Any, data: Any, requires_grad: bool = False, dtype: Any = None) -> None:
        nonlocal count
        array = np.array(data, dtype)
        if array.dtype.kind == "f" and _is_of_a_test():
            array = np.asarray(_changed(array, change, count, number))
            requires_grad = _requires(requires_grad, change, count, number)
            count += 1
        fresh(self, array, requires_grad)
        if change == "layout" and array.ndim:
            self.data = _strided(array)

    kind.__init__ = created
    if change == "values":
        _change_constants(core)
    if change in ("weights", "axis"):
        for name in ("sum", "mean"):
            setattr(kind, name, _reduction(getattr(kind, name), change))
    if change in ("weights", "layout"):
        kind.backward = _backward(kind.backward, change)
    return restart


def _is_of_a_test() -> bool:
    """Whether the engine was called from outside for this, and does not need it for an op."""
    frame = sys._getframe(2)
    while frame.f_code.co_name in ("tensor", "__init__") and frame.f_back is not None:
        frame = frame.f_back
    return "minigrad" not in Path(frame.f_code.co_filename).parent.parts[-2:]


def _draw(shape: Sequence[int], seed: int) -> Any:
    """Return distinct numbers of both signs, away from 0."""
    random = np.random.default_rng(seed)
    draw = random.uniform(0.5, 2.0, tuple(shape))
    return np.where(random.random(tuple(shape)) < 0.5, -draw, draw)


def _changed(array: Any, change: Change, count: int, number: int) -> Any:
    if change == "values":
        return _draw(array.shape, count).astype(array.dtype)
    if change == "batch" and count == number:
        return np.stack([array, _draw(array.shape, count).astype(array.dtype)])
    if change not in ("rows", "columns", "longer") or count != number or not array.ndim:
        return array
    axis = 0 if change == "rows" else array.ndim - 1
    added = 1 if change != "longer" else 2
    shape = [added if i == axis else length for i, length in enumerate(array.shape)]
    return np.concatenate([array, _draw(shape, count).astype(array.dtype)], axis)


def _requires(required: bool, change: Change, count: int, number: int) -> bool:
    return (required or change == "needed") and not (change == "frozen" and count == number)


def _strided(array: Any) -> Any:
    return np.stack([array, array], axis=-1)[..., 0]


def _change_constants(core: Any) -> None:
    """Let numbers that are 1 be another one."""
    original = core._constant

    def constant(value: Any, operands: Any) -> Any:
        other = 1.7 if isinstance(value, int | float) and value == 1 else value
        return original(other, operands)

    core._constant = constant


def _reduction(original: Any, change: Change) -> Any:
    """Return a sum of weighted numbers, or one over the first axis only."""

    @wraps(original)
    def reduced(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if sys._getframe(1).f_globals["__name__"].startswith("minigrad"):
            return original(self, dim, keepdim)
        if change == "weights":
            return original(self * _draw(self.shape, 7), dim, keepdim)
        return original(self, 0 if dim is None and self.data.ndim > 1 else dim, keepdim)

    return reduced


def _backward(original: Any, change: Change) -> Any:
    """Return a backward pass with another cotangent: a number that is not 1, or another layout."""

    @wraps(original)
    def backward(self: Any, cotangent: Any = None, retain_graph: bool = False) -> Any:
        given = np.ones(self.shape) if cotangent is None else np.asarray(cotangent)
        if change == "layout":
            return original(self, _strided(given) if given.ndim else cotangent, retain_graph)
        return original(self, given * _draw(self.shape, 8), retain_graph)

    return backward
