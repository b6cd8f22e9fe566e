"""An engine of single numbers, lifted onto arrays of its values.

NumPy handles the shapes, which such an engine does not have: every multiplication and addition is
the engine's own, element by element, and broadcasting merely uses a value several times.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from harness.core.run import NumericArray
from harness.engines.adapter.arrays import Adapter, Tensor
from harness.engines.library import Library

Values = Any
"""An array of the engine's values, dtype object."""

_ARRAY_METHODS = {
    *("T", "sum", "reshape", "view", "permute", "transpose", "squeeze", "swapaxes"),
    *("expand", "flatten", "ravel", "cumsum", "trace", "diagonal"),
}


class ScalarAdapter(Adapter):
    """A loaded engine whose dialect describes a single value."""

    def leaf(self, data: NumericArray) -> Any:
        """A tensor with a copy of `data` that requires a gradient."""
        return Tensor(self, _map(lambda x: self._evaluate("leaf", data=float(x)), data))

    def value(self, t: Any) -> NumericArray:
        """The data of a tensor."""
        values = t.native if isinstance(t, Tensor) else t
        if not isinstance(values, np.ndarray) or values.dtype != object:
            return np.asarray(values)
        return _numbers(lambda value: Library.value(self, value), values)

    def gradient(self, t: Any) -> NumericArray | None:
        """A leaf's gradient."""
        return _numbers(lambda value: self._evaluate("gradient", t=value), t.native)

    def backward(self, t: Any, cotangent: NumericArray) -> None:
        """Run the backward pass from the sum of the elements, each times its cotangent."""
        pairs = zip(t.native.flat, cotangent.flat, strict=True)
        weighted = [value * float(weight) for value, weight in pairs]
        self._evaluate("backward", t=reduce(operator.add, weighted))  # `sum` would start at int 0

    def is_plain(self, value: Any) -> bool:
        """Whether a value is something other than a tensor of the engine."""
        return super().is_plain(value) and not (
            isinstance(value, np.ndarray) and value.dtype == object
        )

    def wrap(self, value: Any) -> Any:
        """The engine's values as `Tensor`; a single one as an array without axes."""
        wrapped = super().wrap(value)
        if isinstance(wrapped, Tensor) and not isinstance(wrapped.native, np.ndarray):
            array = np.empty((), object)
            array[()] = wrapped.native
            return Tensor(self, array)
        return wrapped

    def operand(self, value: Any) -> Any:
        """The other operand of an operator, for the engine."""
        return self.unwrap(value)

    def method(self, native: Values, name: str) -> Any:
        """NumPy's method for shapes and sums, else the engine's applied to each value, or None."""
        if name == "mean":
            return partial(_mean, native)
        if name in _ARRAY_METHODS:
            return super().method(native, name)
        first = native.flat[0] if native.size else None
        for alias in self.names(name):
            if callable(getattr(first, alias, None)):
                return partial(_call_method, native, alias)
        return None

    def function(self, name: str) -> Any:
        """The engine's function of that name, applied to each value, or None."""
        function = super().function(name)
        return None if function is None else partial(_map, function)


def _map(function: Callable[[Any], Any], array: Any) -> Values:
    values = np.empty(np.shape(array), object)
    for index, element in np.ndenumerate(array):
        values[index] = function(element)
    return values


def _call_method(values: Values, name: str, *arguments: Any) -> Values:
    return _map(lambda value: getattr(value, name)(*arguments), values)


def _numbers(function: Callable[[Any], Any], values: Values) -> NumericArray:
    return np.array([float(function(value)) for value in values.flat]).reshape(values.shape)


def _mean(values: Values, axis: Any = None, keepdims: bool = False) -> Values:
    """NumPy's mean divides by an `np.intp`, which some engines do not accept as a number."""
    total = np.asarray(values.sum(axis=axis, keepdims=keepdims), object)
    return total / float(values.size / total.size)
