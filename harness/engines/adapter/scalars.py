"""An engine of single numbers, lifted onto arrays of its values.

NumPy handles the shapes, which such an engine does not have: every multiplication and addition is
the engine's own, element by element, and broadcasting merely uses a value several times.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import partial, reduce
from typing import Any

import numpy as np

from harness.core.run import NumericArray
from harness.engines.adapter.arrays import Adapter, Tensor
from harness.engines.adapter.calling import call_engine
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
        """A leaf's gradient; 0 for a value without one, if another has one."""
        gradients = [self._evaluate("gradient", t=value) for value in t.native.flat]
        if gradients and all(gradient is None for gradient in gradients):
            return None
        numbers = [0.0 if gradient is None else float(gradient) for gradient in gradients]
        return np.array(numbers).reshape(t.native.shape)

    def backward(self, t: Any, cotangent: NumericArray) -> None:
        """Run the backward pass from the sum of the elements, each times its cotangent."""
        pairs = zip(t.native.flat, cotangent.flat, strict=True)
        weighted = [call_engine(operator.mul, value, float(weight)) for value, weight in pairs]
        self._evaluate("backward", t=reduce(operator.add, weighted))  # `sum` would start at int 0

    def parts(self, leaf: Tensor, data: NumericArray) -> Iterable[tuple[Any, Any]]:
        """Return the values that a leaf consists of, each with its number in `data`."""
        return zip(leaf.native.flat, map(float, data.flat), strict=True)

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
                return partial(_map, _method(alias), native)
        return None

    def function(self, name: str) -> Any:
        """The engine's function of that name, applied to each value, or None."""
        function = super().function(name)
        return None if function is None else partial(_map, function)


def _map(function: Callable[..., Any], *arguments: Any) -> Values:
    """Return the function's value for each element of the arrays, which are broadcast."""
    arrays = np.broadcast_arrays(*map(_boxed, arguments))
    values = np.empty(arrays[0].shape, object)
    for index in np.ndindex(values.shape):
        values[index] = call_engine(function, *(array[index] for array in arrays))
    return values


def _boxed(argument: Any) -> Values:
    """Return an array as it is, and anything else as an array without axes."""
    if isinstance(argument, np.ndarray):
        return argument
    box = np.empty((), object)
    box[()] = argument
    return box


def _method(name: str) -> Callable[..., Any]:
    """Return the function that calls a value's method of this name."""
    return lambda value, *arguments: call_engine(getattr(value, name), *arguments)


def _numbers(function: Callable[[Any], Any], values: Values) -> NumericArray:
    return np.array([float(function(value)) for value in values.flat]).reshape(values.shape)


def _mean(values: Values, axis: Any = None, keepdims: bool = False) -> Values:
    """NumPy's mean divides by an `np.intp`, which some engines do not accept as a number."""
    total = np.asarray(values.sum(axis=axis, keepdims=keepdims), object)
    return call_engine(operator.truediv, total, float(values.size / total.size))
