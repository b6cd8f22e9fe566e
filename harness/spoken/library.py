"""An engine of tensors that hold arrays."""

from __future__ import annotations

import contextlib
import importlib
import operator
import re
from collections.abc import Callable
from copy import copy
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from harness.engine import Dialect
from harness.run import NumericArray
from harness.spoken.calling import attribute_of, attributes_of, call, takes_nothing
from harness.spoken.layers import Linear, Losses, Optimizers
from harness.spoken.words import OWN_WAY, NotSpoken, Partly
from harness.trial import Library

ALIASES: dict[str, tuple[str, ...]] = {
    "abs": ("absolute",),
    "add": ("__add__",),
    "amax": ("max",),
    "amin": ("min",),
    "cat": ("concatenate", "concat"),
    "clamp": ("clip",),
    "expand": ("broadcast_to",),
    "matmul": ("__matmul__", "dot"),
    "movedim": ("moveaxis",),
    "mul": ("__mul__", "multiply"),
    "neg": ("__neg__", "negative"),
    "permute": ("transpose",),
    "pow": ("__pow__", "power"),
    "sub": ("__sub__", "subtract"),
    "T": ("transpose", "t"),
    "unsqueeze": ("expand_dims",),
    "view": ("reshape",),
}
"""PyTorch's name for an op, and others that mean the same."""


OPERATORS = {
    "add": ("add",),
    "sub": ("sub", "subtract"),
    "mul": ("mul", "multiply"),
    "truediv": ("div", "divide", "truediv"),
    "pow": ("pow", "power"),
    "matmul": ("matmul", "dot"),
}
"""What the functions are called in an engine that has no operators."""


class Foreign(Library):
    """A loaded foreign engine. `module` is what probes know as `lib`."""

    def __init__(self, dialect: Dialect, module: ModuleType) -> None:
        """Import the modules in which its functions are."""
        super().__init__(dialect, module)
        self.dialect = dialect
        top = module.__name__.partition(".")[0]
        names = (*dialect.functions, module.__name__, top)
        self._modules = [importlib.import_module(name) for name in dict.fromkeys(names)]
        self.module = _Lib(self)
        self._orders: bool | None = None

    def leaf(self, data: NumericArray) -> Any:
        """A tensor that holds a copy of `data` and asks for a gradient."""
        return Tensor(self, super().leaf(data))

    def constant(self, data: Any, dtype: Any = None, **_: Any) -> Any:
        """A tensor of which no gradient is asked; an array, where it can only be an index."""
        given = np.array(data, dtype)
        if given.dtype.kind in "iub":
            return given
        return self.leaf(given)

    def value(self, t: Any) -> NumericArray:
        """What a tensor holds."""
        return super().value(t.held if isinstance(t, Tensor) else t)

    def shape(self, t: Tensor) -> tuple[int, ...]:
        """The shape of what a tensor holds."""
        return np.shape(self.value(t))

    def compare(self, by: Callable[..., Any], one: Tensor, other: Any) -> NumericArray:
        """Where a comparison of what tensors hold is true."""
        beside = self.value(other) if isinstance(other, Tensor) else other
        return np.asarray(by(self.value(one), beside))

    def gradient(self, t: Any) -> NumericArray | None:
        """A leaf's gradient."""
        return super().gradient(t.held)

    def backward(self, t: Any, cotangent: NumericArray) -> None:
        """Walk back from a tensor."""
        if not isinstance(t, Tensor):
            raise NotSpoken("the probe's output is no tensor of the engine")
        super().backward(t.held, cotangent)

    def forget(self, leaf: Any) -> None:
        """Make a leaf's gradient what it was before the first walk, by its own method if any."""
        for name in attributes_of(leaf.held):
            if _CLEARS.fullmatch(name) and callable(getattr(leaf.held, name)):
                getattr(leaf.held, name)()
                return
        place = re.search(r"t\.(\w+)", self.dialect.gradient)
        name = place[1] if place else "grad"
        try:
            setattr(leaf.held, name, copy(leaf.fresh(name)))
        except (AttributeError, TypeError):
            raise NotSpoken("nothing is known that clears a gradient") from None

    def move(self, leaf: Any, value: NumericArray) -> None:
        """Let a leaf hold other numbers: a new array where it takes one, else in its memory."""
        place = re.fullmatch(r"t\.(\w+)", self.dialect.value)
        with contextlib.suppress(AttributeError, TypeError):
            if place:
                setattr(leaf.held, place[1], value)
        if not np.array_equal(self.value(leaf), value):
            held = self.value(leaf)
            if not held.flags.writeable or held.dtype == object:
                raise NotSpoken(_FIXED)
            held[...] = value
        if not np.allclose(self.value(leaf), value):
            raise NotSpoken(_FIXED)

    # ----- What the façade asks -----

    def orders_axes(self) -> bool:
        """Whether `transpose(0, 1)` leaves a matrix as it is: an order of axes, not a swap."""
        if self._orders is None:
            matrix = self.leaf(np.arange(6.0).reshape(2, 3))
            try:
                self._orders = Tensor.__getattr__(matrix, "transpose")(0, 1).shape == (2, 3)
            except Exception:  # it takes two axes in no way at all
                self._orders = False
        return self._orders

    def wrap(self, value: Any) -> Any:
        """The engine's tensors as ours, also those in tuples and lists; all else as it is."""
        if isinstance(value, tuple | list):
            return type(value)(map(self.wrap, value)) if type(value) in (tuple, list) else value
        return value if self.is_plain(value) else Tensor(self, value)

    def is_plain(self, value: Any) -> bool:
        """Whether it is no tensor of the engine."""
        return value is None or isinstance(value, _PLAIN)

    def open(self, value: Any) -> Any:
        """Our tensors as the engine's."""
        if isinstance(value, tuple | list):
            return type(value)(map(self.open, value))
        return value.held if isinstance(value, Tensor) else value

    def operand(self, value: Any) -> Any:
        """What stands beside a tensor in an expression: arrays are constants there."""
        if isinstance(value, np.ndarray):
            return self.leaf(value.astype(float)).held
        return self.open(value)

    def names(self, name: str) -> list[str]:
        """What the engine may call it."""
        said = self.dialect.names.get(name, ())
        theirs = (said,) if isinstance(said, str) else said
        last = [each.rpartition(".")[2] for each in theirs]
        return [*last, name, *ALIASES.get(name, ())]

    def function(self, name: str) -> Any:
        """A function or class of that name in the engine's modules; None where there is none."""
        for spelled in self.names(name):
            for module in self._modules:
                found = attribute_of(module, spelled)
                if callable(found):
                    return found
        return None

    def method(self, held: Any, name: str) -> Any:
        """An attribute of that name; None where there is none."""
        for spelled in self.names(name):
            found = getattr(held, spelled, None)
            if found is not None:
                return found
        return None

    def say(self, function: Callable[..., Any], given: Any, options: dict[str, Any]) -> Any:
        """Call one of the engine's functions on tensors of ours."""
        opened = {name: self.open(option) for name, option in options.items()}
        return self.wrap(call(function, [self.open(each) for each in given], opened))


_CLEARS = re.compile(r"_?(zero|clear|null|reset)_?(grad|gradient|gradients)")
_FIXED = "what a tensor holds cannot be changed from outside"
_PLAIN = (int, float, complex, str, bytes, dict, slice, np.ndarray, np.generic, np.dtype, type)


class _Lib:
    """The engine as a probe's `lib`: PyTorch's functions under their own names."""

    def __init__(self, library: Foreign) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        """The engine's method of that name, or its function."""
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "tensor":
            return self._library.constant
        if name in ("float32", "float64", "int64"):
            return np.dtype(name)
        if name == "nn":
            return _Layers(self, self._library)
        if name == "optim":
            return Optimizers(self._library)
        if name == "losses":
            return Losses()
        if name in _PARTS:
            raise NotSpoken(f"{OWN_WAY}: `{name}`")
        return partial(self._say, name)

    def _say(self, name: str, *given: Any, **options: Any) -> Any:
        function = self._library.function(name)
        if function is not None:
            return self._library.say(function, given, options)
        if given and isinstance(given[0], Tensor):
            return getattr(given[0], name)(*given[1:], **options)
        raise NotSpoken(f"the engine has no `{name}`, neither of tensors nor as a function")


class _Layers(Partly):
    """The engine as a probe's `lib.nn`: functions are known by their names, layers are not."""

    def __init__(self, lib: _Lib, library: Foreign) -> None:
        self.functional, self.Linear = lib, partial(Linear, library)


_PARTS = ("data", "autograd", "checkpoint", "manual_seed", "GradientTape")


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
        return self.data.dtype

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
