"""Gradient descent on an engine's leaves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.engines.adapter.arrays import Adapter
from harness.engines.adapter.unsupported import PartialNamespace, library_specific


class Optimizers(PartialNamespace):
    """The engine as a probe's `lib.optim`."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def SGD(self, parameters: Iterable[Any], lr: float, **options: float) -> SGD:  # noqa: N802
        """Plain gradient descent; momentum and other options differ between libraries."""
        for name in options:
            raise library_specific(f"`{name}`")
        return SGD(self._adapter, parameters, lr)


class SGD(PartialNamespace):
    """Gradient descent without momentum."""

    def __init__(self, adapter: Adapter, parameters: Iterable[Any], lr: float) -> None:
        """`lr` is the learning rate."""
        self.adapter, self.lr, self.leaves = adapter, lr, list(parameters)

    def zero_grad(self) -> None:
        """Clear the gradient of every leaf."""
        for leaf in self.leaves:
            self.adapter.clear_gradient(leaf)

    def step(self) -> None:
        """Update every leaf that has a gradient."""
        for leaf in self.leaves:
            gradient = leaf.grad
            if gradient is not None:
                self.adapter.assign(leaf, leaf.data - self.lr * gradient)
