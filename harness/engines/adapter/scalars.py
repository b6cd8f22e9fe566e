"""An engine of single numbers, lifted onto arrays of its values.

NumPy takes care of shapes, of which such an engine knows nothing: every multiplication and addition
is the engine's own, element by element, and broadcasting only uses a value several times.
"""

from __future__ import annotations

import operator
from functools import partial, reduce
from typing import Any

import numpy as np

from harness.core.run import NumericArray
from harness.engines.adapter.library import Foreign
from harness.engines.adapter.tensor import Tensor
from harness.engines.library import Library

Values = Any
"""An array of the engine's values, dtype object."""


class Scalars(Foreign):
    """A loaded engine whose dialect speaks of one value each."""

    def leaf(self, data: NumericArray) -> Any:
        """A tensor that holds a copy of `data` and asks for a gradient."""
        return Tensor(self, self._each(lambda x: self._say("leaf", data=float(x)), data))

    def value(self, t: Any) -> NumericArray:
        """What a tensor holds."""
        held = t.held if isinstance(t, Tensor) else t
        if not isinstance(held, np.ndarray) or held.dtype != object:
            return np.asarray(held)
        return self._numbers(lambda each: Library.value(self, each), held)

    def gradient(self, t: Any) -> NumericArray | None:
        """A leaf's gradient."""
        return self._numbers(lambda each: self._say("gradient", t=each), t.held)

    def backward(self, t: Any, cotangent: NumericArray) -> None:
        """Walk from the sum of the elements, each times its cotangent."""
        weighed = [each * float(c) for each, c in zip(t.held.flat, cotangent.flat, strict=True)]
        self._say("backward", t=reduce(operator.add, weighed))  # `sum` would begin with an int

    def is_plain(self, value: Any) -> bool:
        """Whether it is no tensor of the engine."""
        return super().is_plain(value) and not (
            isinstance(value, np.ndarray) and value.dtype == object
        )

    def wrap(self, value: Any) -> Any:
        """The engine's values as our tensors."""
        wrapped = super().wrap(value)
        if isinstance(wrapped, Tensor) and not isinstance(wrapped.held, np.ndarray):
            alone = np.empty((), object)
            alone[()] = wrapped.held
            return Tensor(self, alone)
        return wrapped

    def operand(self, value: Any) -> Any:
        """What stands beside a tensor in an expression."""
        return self.open(value)

    def method(self, held: Values, name: str) -> Any:
        """NumPy's method where it is about shapes or sums, else the engine's for each value."""
        if name == "mean":
            return partial(_mean, held)
        if name in _OF_ARRAYS:
            return super().method(held, name)
        first = held.flat[0] if held.size else None
        for spelled in self.names(name):
            if callable(getattr(first, spelled, None)):
                return partial(self._call_each, held, spelled)
        return None

    def function(self, name: str) -> Any:
        """A function of that name, element by element."""
        found = super().function(name)
        return None if found is None else lambda t: self._each(found, t)

    def _call_each(self, held: Values, name: str, *given: Any) -> Values:
        return self._each(lambda value: getattr(value, name)(*given), held)

    def _each(self, function: Any, array: Any) -> Values:
        made = np.empty(np.shape(array), object)
        for place, each in np.ndenumerate(array):
            made[place] = function(each)
        return made

    def _numbers(self, function: Any, values: Values) -> NumericArray:
        return np.array([float(function(each)) for each in values.flat]).reshape(values.shape)


def _mean(values: Values, axis: Any = None, keepdims: bool = False) -> Values:
    """NumPy's divides by a whole number of its own kind, which is no number to some engines."""
    total = np.asarray(values.sum(axis=axis, keepdims=keepdims), object)
    return total / float(values.size / total.size)


_OF_ARRAYS = {
    *("T", "sum", "reshape", "view", "permute", "transpose", "squeeze", "swapaxes"),
    *("expand", "flatten", "ravel", "cumsum", "trace", "diagonal"),
}
