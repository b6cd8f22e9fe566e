"""An engine of tensors that hold arrays."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Callable
from copy import copy
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from harness.core.run import NumericArray
from harness.engines.adapter.calling import attribute_of, attributes_of, call
from harness.engines.adapter.layers import Linear, Losses, Optimizers
from harness.engines.adapter.missing import OWN_WAY, NotSpoken, Partly
from harness.engines.adapter.tensor import Tensor
from harness.engines.engine import Dialect
from harness.engines.library import Library

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

    def dtype(self, t: Tensor) -> Any:
        """The dtype of what a tensor holds."""
        return self.value(t).dtype

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
