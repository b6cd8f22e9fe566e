"""Gradient descent on an engine's leaves."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from copy import copy
from typing import Any

import numpy as np

from harness.core.run import NumericArray
from harness.engines.adapter.arrays import Adapter, Tensor
from harness.engines.adapter.calling import attributes_of
from harness.engines.adapter.unsupported import LIBRARY_SPECIFIC, PartialNamespace, Unsupported

_CLEARS = re.compile(r"_?(zero|clear|null|reset)_?(grad|gradient|gradients)")
_READ_ONLY = "the data of this engine's tensors cannot be changed from outside"


class Optimizers(PartialNamespace):
    """The engine as a probe's `lib.optim`."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def SGD(self, parameters: Iterable[Any], lr: float, **options: float) -> SGD:  # noqa: N802
        """Plain gradient descent; momentum and other options differ between libraries."""
        for name in options:
            raise Unsupported(f"{LIBRARY_SPECIFIC}: `{name}`")
        return SGD(self._adapter, parameters, lr)


class SGD(PartialNamespace):
    """Gradient descent without momentum."""

    def __init__(self, adapter: Adapter, parameters: Iterable[Any], lr: float) -> None:
        """`lr` is the learning rate."""
        self.adapter, self.lr, self.leaves = adapter, lr, list(parameters)

    def zero_grad(self) -> None:
        """Clear the gradient of every leaf."""
        for leaf in self.leaves:
            clear_gradient(self.adapter, leaf)

    def step(self) -> None:
        """Update every leaf that has a gradient."""
        for leaf in self.leaves:
            gradient = leaf.grad
            if gradient is not None:
                assign(self.adapter, leaf, leaf.data - self.lr * gradient)


def clear_gradient(adapter: Adapter, leaf: Tensor) -> None:
    """Reset a leaf's gradient to its initial value, with the engine's own method if it has one.

    Raises Unsupported if there is neither such a method nor an attribute that can be set.
    """
    if adapter.forget(leaf):
        return
    for name in attributes_of(leaf.native):
        if _CLEARS.fullmatch(name) and callable(getattr(leaf.native, name)):
            getattr(leaf.native, name)()
            return
    match = re.search(r"t\.(\w+)", adapter.dialect.gradient)
    name = match[1] if match else "grad"
    try:
        setattr(leaf.native, name, copy(leaf.initial(name)))
    except (AttributeError, TypeError):
        raise Unsupported("the engine offers no way to clear a gradient") from None


def assign(adapter: Adapter, leaf: Tensor, data: NumericArray) -> None:
    """Give a leaf new data: set its attribute if that works, else write into its array.

    Raises Unsupported if the leaf keeps its old data.
    """
    match = re.fullmatch(r"t\.(\w+)", adapter.dialect.value)
    with contextlib.suppress(AttributeError, TypeError):
        if match:
            setattr(leaf.native, match[1], data)
    if not np.array_equal(adapter.value(leaf), data):
        stored = adapter.value(leaf)
        if not stored.flags.writeable or stored.dtype == object:
            raise Unsupported(_READ_ONLY)
        stored[...] = data
    if not np.allclose(adapter.value(leaf), data):
        raise Unsupported(_READ_ONLY)
