"""Foreign engines under PyTorch's names, so that probes run on them unchanged.

A probe gets a `Tensor` that wraps one of the engine's own tensors and forwards every operator,
method and function to it. Nothing is computed here: an operation that the engine lacks raises
`Unsupported`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from harness.engines.adapter.arrays import Adapter, Tensor
from harness.engines.adapter.kinds import FunctionalAdapter, ReturningAdapter, ScalarAdapter
from harness.engines.calling import PartialNamespace, library_specific, no_operation
from harness.engines.engine import Dialect
from harness.engines.library import Library, names_in

ADAPTERS = {"arrays": Adapter, "scalars": ScalarAdapter, "functional": FunctionalAdapter}
"""How an engine computes: with arrays, with single numbers, or by transforming functions."""


def open_library(dialect: Dialect, module: ModuleType) -> Library:
    """Return the loaded module as a library that runs probes."""
    if dialect.kind is None:
        return Library(dialect, module)
    takes_leaves = dialect.kind == "arrays" and "leaves" in names_in(dialect.backward)
    adapter = (ReturningAdapter if takes_leaves else ADAPTERS[dialect.kind])(dialect, module)
    adapter.module = Namespace(adapter)
    return adapter


# ----- An engine as the `lib` of a probe -----
#
# It has PyTorch's functions, a linear layer, an optimizer and two losses. Parts of a training loop
# that an engine may lack are built on its own tensors: every sum and product in them is the
# engine's, so a break has the same effect as in a learner's training loop.

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
        first = next(iter(arguments), None)
        function = self._adapter.function(name, options)
        translated = isinstance(first, Tensor) and hasattr(Tensor, name)  # such as `transpose`
        if function is not None and not translated:
            return self._adapter.apply(function, arguments, options)
        if isinstance(first, Tensor):
            return getattr(first, name)(*arguments[1:], **options)
        raise no_operation(name)


class _Layers(PartialNamespace):
    """The engine as a probe's `lib.nn`: its functions, a linear layer, and the GELU."""

    def __init__(self, namespace: Namespace, adapter: Adapter) -> None:
        self.functional, self.Linear = namespace, partial(Linear, adapter)

    def GELU(self, **options: str) -> Any:  # noqa: N802  PyTorch's name
        """The engine's function or method `gelu`."""
        return partial(self.functional.gelu, **options)


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
