"""The few things that a training needs beside an engine's tensors, written on top of those.

A linear layer, gradient descent and two losses: every sum and product in them is the engine's own,
so a break in it shows as it would in a learner's training loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.engines.adapter.missing import OWN_WAY, NotSpoken, Partly

if TYPE_CHECKING:
    from harness.engines.adapter.library import Foreign
    from harness.engines.adapter.tensor import Tensor


class Linear(Partly):
    """`x @ weight.T + bias`, its first weights drawn as in minigrad and PyTorch."""

    def __init__(
        self,
        library: Foreign,
        in_features: int,
        out_features: int,
        *,
        rng: np.random.Generator,
        dtype: Any = np.float64,
    ) -> None:
        """Draw uniformly from ±1/sqrt(in_features), the weight first."""
        bound = in_features**-0.5
        shapes = (out_features, in_features), (out_features,)
        drawn = [rng.uniform(-bound, bound, shape).astype(dtype) for shape in shapes]
        self.weight, self.bias = (library.leaf(each) for each in drawn)

    def __call__(self, x: Tensor) -> Any:
        """(..., in_features) to (..., out_features)."""
        return x @ self.weight.T + self.bias

    def parameters(self) -> list[Any]:
        """Both of them."""
        return [self.weight, self.bias]


class Optimizers(Partly):
    """The engine as a probe's `lib.optim`."""

    def __init__(self, library: Foreign) -> None:
        self._library = library

    def SGD(self, parameters: Iterable[Any], lr: float, **further: float) -> SGD:  # noqa: N802
        """Without momentum and the like, which every library has in its own way."""
        for name in further:
            raise NotSpoken(f"{OWN_WAY}: `{name}`")
        return SGD(self._library, parameters, lr)


class SGD(Partly):
    """Gradient descent on leaves."""

    def __init__(self, library: Foreign, parameters: Iterable[Any], lr: float) -> None:
        """`lr` is the learning rate."""
        self.library, self.lr, self.leaves = library, lr, list(parameters)

    def zero_grad(self) -> None:
        """Forget the gradients, by the engine's own method where it has one."""
        for leaf in self.leaves:
            self.library.forget(leaf)

    def step(self) -> None:
        """Move every leaf that has a gradient."""
        for leaf in self.leaves:
            gradient = leaf.grad
            if gradient is not None:
                self.library.move(leaf, leaf.data - self.lr * gradient)


class Losses(Partly):
    """Means over all elements."""

    def mse(self, prediction: Any, target: Any) -> Any:
        """Of the squared differences."""
        return _mean((prediction - target) ** 2)

    def mae(self, prediction: Any, target: Any) -> Any:
        """Of the absolute differences."""
        return _mean((prediction - target).abs())


def _mean(t: Any) -> Any:
    """By the engine's own mean, or by its sum where it has none."""
    return t.mean() if hasattr(t, "mean") else t.sum() * (1.0 / t.data.size)
