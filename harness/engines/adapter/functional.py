"""An engine that differentiates functions, by `make_vjp`, `vjp` or `grad`, and has no tensors.

The function is the probe itself, traced once per leaf when its output is computed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from harness.core.run import NumericArray
from harness.engines.adapter.arrays import Adapter, Tensor
from harness.engines.adapter.calling import call_engine, pull_back
from harness.engines.adapter.returning import Leaf
from harness.engines.adapter.unsupported import Unsupported, library_specific


class FunctionalAdapter(Adapter):
    """A loaded engine whose dialect defines `pull`: the output, and its VJP.

    In that expression, `function` takes a single array, `data`.
    """

    gives_gradients_of_created = False

    def leaf(self, data: NumericArray) -> Any:
        """A tensor with a copy of `data` that requires a gradient."""
        return Leaf(self, data.copy())

    def constant(self, data: Any, dtype: Any = None, **_: Any) -> Any:
        """A tensor whose gradient is not read; integers and booleans stay an array."""
        array = np.array(data, dtype)
        return array if array.dtype.kind in "iub" else Tensor(self, array)

    def value(self, t: Any) -> NumericArray:
        """The data of a tensor. Raises Unsupported for a tensor that is being traced."""
        data = np.asarray(t.native if isinstance(t, Tensor) else t)
        if data.dtype == object:
            raise Unsupported("the value of a traced tensor cannot be read")
        return data

    def dtype(self, t: Tensor) -> Any:
        """The dtype of a tensor, also of a traced one if it has that attribute."""
        return getattr(t.native, "dtype", None) or super().dtype(t)

    def shape(self, t: Tensor) -> tuple[int, ...]:
        """The shape of a tensor, also of a traced one if it has that attribute."""
        shape = getattr(t.native, "shape", None)
        return shape if isinstance(shape, tuple) else super().shape(t)

    def compare(self, by: Callable[..., Any], one: Tensor, other: Any) -> NumericArray:
        """Compare element by element, with the engine's own operator for a traced tensor."""
        result = np.asarray(call_engine(by, self.unwrap(one), self.unwrap(other)))
        if result.dtype != bool:
            raise Unsupported("a traced tensor cannot be compared")
        return result

    def gradient(self, t: Any) -> NumericArray | None:
        """A leaf's gradient."""
        gradient: NumericArray | None = t.gradient
        return gradient

    def backward(self, t: Any, cotangent: NumericArray) -> None:
        """Pull the cotangent back to every leaf; a second call adds to the first."""
        if not isinstance(t, _Output):
            raise Unsupported("a functional engine has no backward pass inside a probe")
        for leaf, pull in t.pulls.items():
            leaf.receive(pull_back(pull, cotangent))

    def call(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        leaves: Mapping[str, Any],
        **options: Any,
    ) -> Any:
        """The output of a probe's function, with a VJP for each leaf."""
        if inspect.isgeneratorfunction(function):
            raise library_specific("a training loop, which needs a graph")
        values = {name: leaf.native for name, leaf in leaves.items()}
        output, pulls = None, {}
        for name, leaf in leaves.items():

            def of_one(x: Any, name: str = name) -> Any:
                tensors = {other: Tensor(self, value) for other, value in values.items()}
                tensors[name] = Tensor(self, x)
                if self._creations:
                    self._creations.restart()
                return self.unwrap(function(*arguments, **tensors, **options))

            output, pulls[leaf] = self._evaluate("pull", function=of_one, data=values[name])
        if not leaves:
            return function(*arguments, **options)
        return _Output(self, output, pulls)

    def is_plain(self, value: Any) -> bool:
        """Whether a value is not a tensor: the tensors of this engine are floating-point arrays."""
        if isinstance(value, np.ndarray | np.generic):
            return value.dtype.kind != "f"
        return super().is_plain(value)

    def operand(self, value: Any) -> Any:
        """The other operand of an operator, for the engine."""
        return self.unwrap(value)

    def method(self, native: Any, name: str) -> Any:
        """The attribute of that name, or None if the engine has a function, which it can trace."""
        return None if self.function(name) else super().method(native, name)


class _Output(Tensor):
    """The result of the probe's function, and a VJP for each leaf."""

    def __init__(self, adapter: FunctionalAdapter, native: Any, pulls: Mapping[Leaf, Any]) -> None:
        super().__init__(adapter, native)
        self.pulls = pulls
