"""Layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from minigrad.tensor import Tensor


class Module:
    """A layer or a model: its parameters are the leaves among its attributes, and its modules'."""

    forward: Callable[..., Tensor]
    """What a subclass computes."""

    def __call__(self, *inputs: Any) -> Tensor:
        """Compute the output."""
        return self.forward(*inputs)

    def parameters(self) -> list[Tensor]:
        """The leaves that require a gradient, in the order of the attributes; shared ones once."""
        return list(dict.fromkeys(_parameters(vars(self).values())))


def _parameters(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            if value.requires_grad and value.is_leaf:
                yield value
        elif isinstance(value, Module):
            yield from value.parameters()
        elif isinstance(value, list | tuple):
            yield from _parameters(value)


class Linear(Module):
    """`x @ weight.T + bias`: (..., in_features) -> (..., out_features).

    `weight` has shape (out_features, in_features) and `bias` (out_features,), or None. Both start
    uniform in ±1/sqrt(in_features), as in `torch.nn.Linear`.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        rng: np.random.Generator,
        dtype: DTypeLike = np.float64,
    ) -> None:
        """Draw the parameters from `rng`, the weight first."""
        bound = in_features**-0.5
        weight = rng.uniform(-bound, bound, (out_features, in_features))
        self.weight = Tensor(weight, requires_grad=True, dtype=dtype)
        self.bias: Tensor | None = None
        if bias:
            offset = rng.uniform(-bound, bound, out_features)
            self.bias = Tensor(offset, requires_grad=True, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to the last axis of `x`."""
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias
