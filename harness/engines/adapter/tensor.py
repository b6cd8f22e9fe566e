"""A tensor as a probe holds it: one of the engine's own, by PyTorch's names."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.core.run import NumericArray
from harness.engines.adapter.calling import takes_nothing
from harness.engines.adapter.missing import NotSpoken

if TYPE_CHECKING:
    from harness.engines.adapter.library import Foreign

OPERATORS = {
    "add": ("add",),
    "sub": ("sub", "subtract"),
    "mul": ("mul", "multiply"),
    "truediv": ("div", "divide", "truediv"),
    "pow": ("pow", "power"),
    "matmul": ("matmul", "dot"),
}
"""What the functions are called in an engine that has no operators."""


class Tensor:
    """One of the engine's tensors. Every operator is the engine's own."""

    __array_ufunc__ = None  # an array on the left leaves the operator to us
    __hash__ = object.__hash__

    def __init__(self, library: Foreign, held: Any) -> None:
        self.library, self.held = library, held

    def fresh(self, attribute: str) -> Any:
        """What a new leaf of this shape has there."""
        return getattr(self.library.leaf(np.zeros_like(self.data)).held, attribute, None)

    @property
    def data(self) -> NumericArray:
        """What it holds."""
        return self.library.value(self)

    @property
    def grad(self) -> NumericArray | None:
        """What has been accumulated."""
        return self.library.gradient(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.library.shape(self)

    @property
    def ndim(self) -> int:
        """The number of its axes."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of what it holds."""
        return self.library.dtype(self)

    def item(self) -> float:
        """Its only element."""
        return float(self.data.item())

    def detach(self) -> Any:
        """A constant that holds the same."""
        return self.library.constant(self.data)

    def transpose(self, *axes: int) -> Any:
        """Two axes change places; NumPy's `transpose` takes the order of all."""
        library = self.library
        swap = library.method(self.held, "swapaxes") if len(axes) == 2 else None
        if swap is not None:
            return library.say(swap, axes, {})
        if len(axes) == 2 and (swap := library.function("swapaxes")) is not None:
            return library.say(swap, (self, *axes), {})
        transpose = self.__getattr__("transpose")
        if len(axes) != 2:
            return transpose(*axes)
        order = list(range(self.ndim))
        order[axes[0]], order[axes[1]] = order[axes[1]], order[axes[0]]
        return transpose(*(order if library.orders_axes() else axes))

    def backward(self, cotangent: Any = None) -> None:
        """Walk back from here."""
        value = self.data
        given = np.ones_like(value) if cotangent is None else self.library.value(cotangent)
        self.library.backward(self, given)

    @property
    def T(self) -> Any:  # noqa: N802  PyTorch's name
        """Both axes of a matrix in the other order."""
        found = self.library.method(self.held, "T")
        if found is None:
            return self.transpose()
        if not callable(found):
            return self.library.wrap(found)
        return self.library.say(found, () if takes_nothing(found) else (0, 1), {})

    def __getattr__(self, name: str) -> Any:
        """The engine's method of that name, or its function."""
        if name.startswith("__"):
            raise AttributeError(name)
        found = self.library.method(self.held, name)
        if found is None:
            function = self.library.function(name)
            if function is None:
                raise NotSpoken(f"the engine has no `{name}`, neither of tensors nor as a function")
            return lambda *given, **options: self.library.say(function, (self, *given), options)
        if not callable(found):
            return self.library.wrap(found)
        return lambda *given, **options: self.library.say(found, given, options)

    def __getitem__(self, key: Any) -> Any:
        """Its own indexing."""
        return self.library.wrap(self.held[self.library.open(key)])

    def __len__(self) -> int:
        """The length of its first axis."""
        return len(self.data)

    def __neg__(self) -> Any:
        """Its own sign."""
        return self.library.wrap(-self.held)


def _binary(symbol: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    apply = getattr(operator, symbol)

    def on(library: Foreign, one: Any, other: Any) -> Any:
        """The operator; or the function, of an engine that has only that."""
        if not any(hasattr(type(each), f"__{symbol}__") for each in (one, other)):
            function = next(filter(None, map(library.function, OPERATORS.get(symbol, ()))), None)
            if function is not None:
                return library.wrap(function(one, other))
        return library.wrap(apply(one, other))

    def method(self: Tensor, other: Any) -> Any:
        return on(self.library, self.held, self.library.operand(other))

    def reflected(self: Tensor, other: Any) -> Any:
        return on(self.library, self.library.operand(other), self.held)

    return method, reflected


for _symbol in ("add", "sub", "mul", "truediv", "pow", "matmul", "floordiv", "mod"):
    _method, _reflected = _binary(_symbol)
    setattr(Tensor, f"__{_symbol}__", _method)
    setattr(Tensor, f"__r{_symbol}__", _reflected)


def _comparison(symbol: str) -> Callable[[Tensor, Any], NumericArray]:
    compare = getattr(operator, symbol)

    def method(self: Tensor, other: Any) -> NumericArray:
        return self.library.compare(compare, self, other)

    return method


for _symbol in ("lt", "le", "gt", "ge"):
    setattr(Tensor, f"__{_symbol}__", _comparison(_symbol))
