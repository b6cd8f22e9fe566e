"""Engines of single numbers, engines that return the gradients, and engines of functions."""

from __future__ import annotations

import inspect
import operator
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial, reduce
from types import ModuleType
from typing import Any

import numpy as np

from harness.core.run import NumericArray
from harness.engines.adapter.arrays import Adapter, Tensor
from harness.engines.calling import (
    NestedTensor,
    Unsupported,
    call_engine,
    library_specific,
    pull_back,
)
from harness.engines.engine import Dialect
from harness.engines.library import Library

# ----- Single numbers, lifted onto arrays of them -----
#
# NumPy handles the shapes, which such an engine does not have: every multiplication and addition is
# the engine's own, element by element, and broadcasting merely uses a value several times.

ScalarArray = Any
"""An array of the engine's values, dtype object."""

_ARRAY_METHODS = {
    *("T", "sum", "reshape", "view", "permute", "transpose", "squeeze", "swapaxes"),
    *("expand", "flatten", "ravel", "cumsum", "trace", "diagonal"),
}


class ScalarAdapter(Adapter):
    """A loaded engine whose dialect describes a single value."""

    def new(self, data: NumericArray) -> ScalarArray:
        """An array of the engine's own values."""
        return _map(lambda x: self._evaluate("leaf", data=float(x)), data)

    def value(self, t: Any) -> NumericArray:
        """The data of a tensor."""
        values = t.native if isinstance(t, Tensor) else t
        if not isinstance(values, np.ndarray) or values.dtype != object:
            return np.asarray(values)
        numbers = [self._number(value) for value in values.flat]
        return np.array(numbers).reshape(values.shape)

    def _number(self, value: Any) -> float:
        """The data of one of the engine's values. Raises NestedTensor if it is another value."""
        data = Library.value(self, value)
        if data.dtype == object and type(data.item()) is type(value):
            raise NestedTensor(value)
        return float(data)

    def gradient(self, t: Any) -> NumericArray | None:
        """A leaf's gradient; 0 for a value without one, if another has one."""
        gradients = [self._evaluate("gradient", t=value) for value in t.native.flat]
        if gradients and all(gradient is None for gradient in gradients):
            return None
        numbers = [0.0 if gradient is None else float(gradient) for gradient in gradients]
        return np.array(numbers).reshape(t.native.shape)

    def backward(self, t: Any, cotangent: NumericArray) -> None:
        """Run the backward pass from the sum of the elements, each times its cotangent.

        A cotangent of 1 needs no product, so that a second pass starts where the first one did.
        """
        weighted = [
            value if weight == 1 else self._times(value, float(weight))
            for value, weight in zip(t.native.flat, cotangent.flat, strict=True)
        ]
        self._evaluate("backward", t=reduce(operator.add, weighted))  # `sum` would start at int 0

    def _times(self, value: Any, weight: float) -> Any:
        """The product with a number, or with a value of it if the engine multiplies only values."""
        try:
            return call_engine(operator.mul, value, weight)
        except (AttributeError, TypeError):
            return call_engine(operator.mul, value, self._evaluate("leaf", data=weight))

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

    def overloads(self, native: Any, symbol: str) -> bool:
        """Whether the engine's values overload an operator."""
        return super().overloads(next(iter(np.asarray(native).flat), native), symbol)

    def method(self, native: ScalarArray, name: str) -> Any:
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

    def function(self, name: str, options: Collection[str] = ()) -> Any:
        """The engine's function of that name, applied to each value, or None."""
        function = super().function(name, options)
        return None if function is None else partial(_map, function)


def _map(function: Callable[..., Any], *arguments: Any) -> ScalarArray:
    """Return the function's value for each element of the arrays, which are broadcast."""
    arrays = np.broadcast_arrays(*map(_boxed, arguments))
    values = np.empty(arrays[0].shape, object)
    for index in np.ndindex(values.shape):
        values[index] = call_engine(function, *(array[index] for array in arrays))
    return values


def _boxed(argument: Any) -> ScalarArray:
    """Return an array as it is, and anything else as an array without axes."""
    if isinstance(argument, np.ndarray):
        return argument
    box = np.empty((), object)
    box[()] = argument
    return box


def _method(name: str) -> Callable[..., Any]:
    """Return the function that calls a value's method of this name."""
    return lambda value, *arguments: call_engine(getattr(value, name), *arguments)


def _mean(values: ScalarArray, axis: Any = None, keepdims: bool = False) -> ScalarArray:
    """NumPy's mean divides by an `np.intp`, which some engines do not accept as a number."""
    total = np.asarray(values.sum(axis=axis, keepdims=keepdims), object)
    return call_engine(operator.truediv, total, float(values.size / total.size))


# ----- A backward pass that is given the leaves, and returns their gradients or moves them -----


class ReturningAdapter(Adapter):
    """A loaded engine whose expression `backward` uses `leaves`.

    Gradients that are returned, or that show in the step of an optimizer, are kept here; a second
    backward pass adds to the first.
    """

    def __init__(self, dialect: Dialect, module: ModuleType) -> None:
        """Start without leaves."""
        super().__init__(dialect, module)
        self._leaves: list[weakref.ref[TracedLeaf]] = []

    def leaf(self, data: NumericArray) -> Any:
        """A tensor with a copy of `data` that requires a gradient."""
        leaf = TracedLeaf(self, self.new(data))
        self._leaves.append(weakref.ref(leaf))
        return leaf

    def gradient(self, t: Any) -> NumericArray | None:
        """A leaf's gradient."""
        if self.dialect.stores_gradients:
            return super().gradient(t)
        return t.gradient if isinstance(t, TracedLeaf) else None

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

    def _moved(self, leaves: Sequence[TracedLeaf], before: Sequence[NumericArray]) -> list[Any]:
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
        if self.dialect.stores_gradients or not isinstance(leaf, TracedLeaf):
            return False
        leaf.gradient = None
        return True


class TracedLeaf(Tensor):
    """A leaf whose gradient is kept here, since the engine returns it."""

    def __init__(self, adapter: Adapter, native: Any) -> None:
        super().__init__(adapter, native)
        self.gradient: NumericArray | None = None

    def receive(self, gradient: Any) -> None:
        """Add a gradient to the earlier one; None if the output does not depend on the leaf."""
        if gradient is not None:
            array = np.asarray(gradient)
            self.gradient = array if self.gradient is None else self.gradient + array


# ----- Functions, differentiated by `make_vjp`, `vjp` or `grad`, without tensors -----
#
# The function is the probe itself, traced once per leaf when its output is computed.


class FunctionalAdapter(Adapter):
    """A loaded engine whose dialect defines `pull`: the output, and its VJP.

    In that expression, `function` takes a single array, `data`.
    """

    gives_gradients_of_created = False

    def leaf(self, data: NumericArray) -> Any:
        """A tensor with a copy of `data` that requires a gradient."""
        return TracedLeaf(self, self.new(data))

    def new(self, data: NumericArray) -> NumericArray:
        """A copy of the data: the engine's own tensors are arrays."""
        return data.copy()

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

    def __init__(
        self, adapter: FunctionalAdapter, native: Any, pulls: Mapping[TracedLeaf, Any]
    ) -> None:
        super().__init__(adapter, native)
        self.pulls = pulls
