"""Changing a leaf from outside: its data, and its gradient."""

from __future__ import annotations

import contextlib
import re
from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from harness.core.run import NumericArray
from harness.engines.adapter.calling import attributes_of, call_engine
from harness.engines.adapter.unsupported import Unsupported

if TYPE_CHECKING:  # they use this module
    from harness.engines.adapter.arrays import Adapter, Tensor

_CLEARS = re.compile(r"_?(zero|clear|null|reset)_?(grad|gradient|gradients)")
_READ_ONLY = "the data of this engine's tensors cannot be changed from outside"


def assign(adapter: Adapter, leaf: Tensor, data: NumericArray) -> None:
    """Give a leaf new data: set its attribute if that works, else write into its array.

    Raises Unsupported if the leaf keeps its old data.
    """
    if match := re.fullmatch(r"t\.(\w+)", adapter.dialect.value):
        _set(adapter, leaf, match[1], data)
    if not np.array_equal(adapter.value(leaf), data):
        stored = adapter.value(leaf)
        if not stored.flags.writeable or stored.dtype == object:
            raise Unsupported(_READ_ONLY)
        stored[...] = data
    if not np.allclose(adapter.value(leaf), data):
        raise Unsupported(_READ_ONLY)


def set_gradient(adapter: Adapter, leaf: Tensor, gradient: NumericArray | None) -> None:
    """Give a leaf this gradient; None clears it.

    Raises Unsupported if the leaf keeps its old gradient.
    """
    if gradient is None:
        clear_gradient(adapter, leaf)
        return
    # After `leaf.grad *= 0.5`, the engine's own array may have changed already.
    if not np.array_equal(np.asarray(adapter.gradient(leaf)), gradient):
        if match := re.fullmatch(r"t\.(\w+)", adapter.dialect.gradient):
            _set(adapter, leaf, match[1], gradient)
        if not np.array_equal(np.asarray(adapter.gradient(leaf)), gradient):
            raise Unsupported("a gradient of this engine cannot be changed from outside")


def clear_gradient(adapter: Adapter, leaf: Tensor) -> None:
    """Reset a leaf's gradient to its initial value, with the engine's own method if it has one.

    Raises Unsupported if there is neither such a method nor an attribute that can be set.
    """
    if adapter.forget(leaf):
        return
    data = leaf.data
    tensors = [tensor for tensor, _ in adapter.parts(leaf, data)]
    for method in attributes_of(next(iter(tensors), None)):
        if _CLEARS.fullmatch(method) and callable(getattr(tensors[0], method)):
            for tensor in tensors:
                call_engine(getattr(tensor, method))
            return
    match = re.search(r"t\.(\w+)", adapter.dialect.gradient)
    name = match[1] if match else "grad"
    new = adapter.leaf(np.zeros_like(data))
    try:
        for tensor, (initial, _) in zip(tensors, adapter.parts(new, data), strict=True):
            setattr(tensor, name, copy(getattr(initial, name, None)))
    except (AttributeError, TypeError):
        raise Unsupported("the engine offers no way to clear a gradient") from None


def _set(adapter: Adapter, leaf: Tensor, name: str, data: NumericArray) -> None:
    """Set an attribute of the engine's tensor, if it can be set."""
    with contextlib.suppress(AttributeError, TypeError):
        for tensor, part in adapter.parts(leaf, data):
            setattr(tensor, name, part)
