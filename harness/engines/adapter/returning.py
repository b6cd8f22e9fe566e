"""An engine whose backward pass is given the leaves, and returns their gradients or moves them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from harness.core.run import NumericArray
from harness.engines.adapter.arrays import Adapter, Tensor
from harness.engines.adapter.unsupported import Unsupported
from harness.engines.engine import Dialect


class ReturningAdapter(Adapter):
    """A loaded engine whose expression `backward` uses `leaves`.

    Gradients that are returned, or that show in the step of an optimizer, are kept here; a second
    backward pass adds to the first.
    """

    def __init__(self, dialect: Dialect, module: ModuleType) -> None:
        """Start without leaves."""
        super().__init__(dialect, module)
        self._leaves: list[weakref.ref[Leaf]] = []

    def leaf(self, data: NumericArray) -> Any:
        """A tensor with a copy of `data` that requires a gradient."""
        leaf = Leaf(self, super().leaf(data).native)
        self._leaves.append(weakref.ref(leaf))
        return leaf

    def constant(self, data: Any, dtype: Any = None, **_: Any) -> Any:
        """A tensor whose gradient is not read; integers and booleans stay an array."""
        array = np.array(data, dtype)
        return array if array.dtype.kind in "iub" else Tensor(self, super().leaf(array).native)

    def gradient(self, t: Any) -> NumericArray | None:
        """A leaf's gradient."""
        if self.dialect.stores_gradients:
            return super().gradient(t)
        return t.gradient if isinstance(t, Leaf) else None

    def backward(self, t: Any, cotangent: NumericArray) -> None:
        """Run the backward pass for every leaf that is still in use."""
        if not isinstance(t, Tensor):
            raise Unsupported("the probe's output is not a tensor of the engine")
        self._leaves = [reference for reference in self._leaves if reference() is not None]
        leaves = [leaf for reference in self._leaves if (leaf := reference()) is not None]
        before = [self.value(leaf).copy() for leaf in leaves]
        natives = [leaf.native for leaf in leaves]
        result = self._evaluate("backward", t=t.native, cotangent=cotangent, leaves=natives)
        if self.dialect.stores_gradients:
            return
        if self.dialect.gradient:
            result = self._moved(leaves, before)
        gradients = result if isinstance(result, list | tuple) else [result]
        for leaf, gradient in zip(leaves, gradients, strict=True):
            leaf.receive(gradient)

    def _moved(self, leaves: Sequence[Leaf], before: Sequence[NumericArray]) -> list[Any]:
        """The gradients by which a step has moved the leaves, which get their data back."""
        gradients = [
            self._evaluate("gradient", t=leaf.native, before=data)
            for leaf, data in zip(leaves, before, strict=True)
        ]
        for leaf, data in zip(leaves, before, strict=True):
            self.assign(leaf, data)
        return gradients

    def forget(self, leaf: Any) -> bool:
        """Clear a gradient that is kept here."""
        if self.dialect.stores_gradients or not isinstance(leaf, Leaf):
            return False
        leaf.gradient = None
        return True


class Leaf(Tensor):
    """A leaf whose gradient is kept here, since the engine returns it."""

    def __init__(self, adapter: Adapter, native: Any) -> None:
        super().__init__(adapter, native)
        self.gradient: NumericArray | None = None

    def receive(self, gradient: Any) -> None:
        """Add a gradient to the earlier one; None if the output does not depend on the leaf."""
        if gradient is not None:
            array = np.asarray(gradient)
            self.gradient = array if self.gradient is None else self.gradient + array
