"""An engine as the `lib` of a probe: PyTorch's functions, a linear layer, an optimizer, two losses.

Parts of a training loop that an engine may lack are built on its own tensors: every sum and product
in them is the engine's, so a break has the same effect as in a learner's training loop.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from harness.engines.adapter.arrays import Adapter, Tensor
from harness.engines.adapter.optimizer import Optimizers
from harness.engines.adapter.unsupported import PartialNamespace, library_specific, no_operation

_LIBRARY_SPECIFIC_PARTS = (
    *("data", "autograd", "checkpoint", "manual_seed", "GradientTape"),
    "pad",  # PyTorch begins with the last axis, NumPy takes a pair for each
)


class Namespace:
    """The engine as a probe's `lib`."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def __getattr__(self, name: str) -> Any:
        """The engine's function or method of that name, or a part of the namespace."""
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("tensor", "Tensor"):
            return self._adapter.tensor
        if name in ("float32", "float64", "int64"):
            return np.dtype(name)
        if name == "nn":
            return _Layers(self, self._adapter)
        if name == "optim":
            return Optimizers(self._adapter)
        if name == "losses":
            return Losses()
        if name in _LIBRARY_SPECIFIC_PARTS:
            raise library_specific(f"`{name}`")
        return partial(self._call, name)

    def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        first, function = next(iter(arguments), None), self._adapter.function(name)
        translated = isinstance(first, Tensor) and hasattr(Tensor, name)  # such as `transpose`
        if function is not None and not translated:
            return self._adapter.apply(function, arguments, options)
        if isinstance(first, Tensor):
            return getattr(first, name)(*arguments[1:], **options)
        raise no_operation(name)


class _Layers(PartialNamespace):
    """The engine as a probe's `lib.nn`: its functions, and a linear layer."""

    def __init__(self, namespace: Namespace, adapter: Adapter) -> None:
        self.functional, self.Linear = namespace, partial(Linear, adapter)


class Linear(PartialNamespace):
    """`x @ weight.T + bias`, initialized as in minigrad and PyTorch."""

    def __init__(
        self,
        adapter: Adapter,
        in_features: int,
        out_features: int,
        *,
        rng: np.random.Generator,
        dtype: Any = np.float64,
    ) -> None:
        """Draw uniformly from ±1/sqrt(in_features), the weight first."""
        bound = in_features**-0.5
        shapes = (out_features, in_features), (out_features,)
        initial = [rng.uniform(-bound, bound, shape).astype(dtype) for shape in shapes]
        self.weight = adapter.parameter(self, "weight", initial[0])
        self.bias = adapter.parameter(self, "bias", initial[1])

    def __call__(self, x: Tensor) -> Any:
        """Map (..., in_features) to (..., out_features)."""
        return x @ self.weight.T + self.bias

    def parameters(self) -> list[Any]:
        """The weight and the bias."""
        return [self.weight, self.bias]


class Losses(PartialNamespace):
    """Losses that average over all elements."""

    def mse(self, prediction: Any, target: Any) -> Any:
        """The mean squared error."""
        return _mean((prediction - target) ** 2)

    def mae(self, prediction: Any, target: Any) -> Any:
        """The mean absolute error."""
        return _mean((prediction - target).abs())


def _mean(t: Any) -> Any:
    """The engine's own mean, or its sum divided by the size."""
    return t.mean() if hasattr(t, "mean") else t.sum() * (1.0 / t.data.size)
