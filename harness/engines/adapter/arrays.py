"""An engine whose tensors hold arrays: the adapter that calls it, and the tensor that a probe gets.

`Tensor` and `Adapter` refer to each other, and so share a module.
"""

from __future__ import annotations

import contextlib
import importlib
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from harness.core.run import NumericArray
from harness.engines.calling import (
    ACTIVATES,
    ACTIVATIONS,
    ALIASES,
    OPERATORS,
    Unsupported,
    attribute_of,
    attributes_of,
    call,
    call_engine,
    is_op,
    no_operation,
    op_of,
    parameters_of,
    positional,
)
from harness.engines.engine import Dialect
from harness.engines.library import Creations, Library

_PLAIN = (int, float, complex, str, bytes, dict, slice, np.ndarray, np.generic, np.dtype, type)

_ALONG_LAST = ("softmax", "log_softmax")
"""Ops that engines without axes compute along the last one."""

_CLEARS = re.compile(r"_?(zero|clear|null|reset)_?(grad|gradient|gradients)")
_READ_ONLY = "the data of this engine's tensors cannot be changed from outside"


class Adapter(Library):
    """A loaded foreign engine under PyTorch's names."""

    gives_gradients_of_created = True
    """Whether the gradient of a leaf that a probe creates can be read."""

    def __init__(self, dialect: Dialect, module: ModuleType) -> None:
        """Import the modules that define its functions."""
        super().__init__(dialect, module)
        self.dialect = dialect
        top = module.__name__.partition(".")[0]
        names = (*dialect.functions, module.__name__, top)
        self._creations: Creations | None = None
        self._modules = [importlib.import_module(name) for name in dict.fromkeys(names)]
        self._package = importlib.import_module(top)

    def leaf(self, data: NumericArray) -> Any:
        """A tensor with a copy of `data` that requires a gradient."""
        return Tensor(self, self.new(data))

    def new(self, data: NumericArray) -> Any:
        """One of the engine's own tensors, with a copy of `data`.

        Raises Unsupported for a number of axes that the engine does not handle.
        """
        if data.ndim in self.dialect.refused_ranks:
            raise Unsupported(f"the engine does not handle tensors of shape {data.shape}")
        return super().leaf(data)

    def constant(self, data: Any, dtype: Any = None, **_: Any) -> Any:
        """A tensor whose gradient is not read; integers and booleans stay an array."""
        array = np.array(data, dtype)
        return array if array.dtype.kind in "iub" else Tensor(self, self.new(array))

    @contextlib.contextmanager
    def creating(self, creations: Creations) -> Iterator[None]:
        """Record the leaves that a probe creates inside."""
        self._creations = creations
        try:
            yield
        finally:
            self._creations = None

    def requires_gradient(self, t: Any) -> bool:  # noqa: ARG002  only such leaves are recorded
        """Whether a created tensor takes part in the backward pass."""
        return True

    def parameter(self, owner: Any, attribute: str, data: NumericArray) -> Any:
        """A leaf for an attribute of a layer that breaklab makes."""
        name = self._creations.next_parameter(owner, attribute) if self._creations else ""
        return self._created(name, data)

    def tensor(
        self, data: Any, dtype: Any = None, requires_grad: bool = False, **options: Any
    ) -> Any:
        """`lib.tensor` of a probe."""
        name = self._creations.next_tensor() if self._creations else ""
        if requires_grad and (array := np.array(data, dtype)).dtype.kind == "f":
            return self._created(name, array)
        return self.constant(data, dtype, **options)

    def _created(self, name: str, data: NumericArray) -> Any:
        if self._creations is None:
            return self.leaf(data)
        leaf = self.leaf(self._creations.values.get(name, data))
        if self.gives_gradients_of_created:
            self._creations.note(name, leaf)
        else:
            self._creations.unreadable.add(name)
        return leaf

    def value(self, t: Any) -> NumericArray:
        """The data of a tensor."""
        return super().value(t.native if isinstance(t, Tensor) else t)

    def dtype(self, t: Tensor) -> Any:
        """The dtype of a tensor's data."""
        return self.value(t).dtype

    def shape(self, t: Tensor) -> tuple[int, ...]:
        """The shape of a tensor's data."""
        return np.shape(self.value(t))

    def compare(self, by: Callable[..., Any], one: Tensor, other: Any) -> NumericArray:
        """Compare the data of a tensor with another tensor or array, element by element."""
        other = self.value(other) if isinstance(other, Tensor) else other
        return np.asarray(by(self.value(one), other))

    def gradient(self, t: Any) -> NumericArray | None:
        """A leaf's gradient."""
        return super().gradient(t.native)

    def backward(self, t: Any, cotangent: NumericArray) -> None:
        """Run the backward pass from a tensor."""
        if not isinstance(t, Tensor):
            raise Unsupported("the probe's output is not a tensor of the engine")
        super().backward(t.native, cotangent)

    def backward_again(self, t: Any, cotangent: NumericArray) -> None:
        """Run the backward pass and keep the graph, with the engine's option for that, if any."""
        if "retain_graph" not in (parameters_of(getattr(t.native, "backward", None)) or ()):
            self.backward(t, cotangent)
            return
        name, start = "backward_again", self.dialect.backward.rpartition(")")[0]
        comma = "" if start.endswith("(") else ", "
        self._code[name] = self._compile(name, f"{start}{comma}retain_graph=True)")
        try:
            self._evaluate(name, t=t.native, cotangent=cotangent)
        finally:
            del self._code[name]  # the dialect still does not define it

    def backward_from_loss(self, loss: Any) -> None:
        """Run the backward pass from a single number, without a cotangent if it may be left out.

        Only such a call uses the default, so only such a call shows a wrong one.
        """
        called = re.match(r"t\.(\w+)\(.*\bcotangent\b", self.dialect.backward)
        parameters = parameters_of(getattr(loss.native, called[1], None)) if called else None
        first = next(iter((parameters or {}).values()), None)
        stated = self._code.get("backward")
        if called and stated and first and first.default is None:
            self._code["backward"] = self._compile("backward", f"t.{called[1]}()")
        try:
            self.backward(loss, np.ones_like(self.value(loss)))
        finally:
            if stated:
                self._code["backward"] = stated

    def forget(self, leaf: Any) -> bool:  # noqa: ARG002  for adapters that keep gradients
        """Clear a gradient that the adapter keeps itself; False if the engine keeps it."""
        return False

    # ----- changing a leaf from outside -----

    def parts(self, leaf: Tensor, data: NumericArray) -> Iterable[tuple[Any, Any]]:
        """Return the engine's own tensors that a leaf consists of, each with its part of `data`."""
        return [(leaf.native, data)]

    def assign(self, leaf: Tensor, data: NumericArray) -> None:
        """Give a leaf new data: set its attribute if that works, else write into its array.

        Raises Unsupported if the leaf keeps its old data.
        """
        if match := re.fullmatch(r"t\.(\w+)", self.dialect.value):
            self._set(leaf, match[1], data)
        if not np.array_equal(self.value(leaf), data):
            stored = self.value(leaf)
            if not stored.flags.writeable or stored.dtype == object:
                raise Unsupported(_READ_ONLY)
            stored[...] = data
        if not np.allclose(self.value(leaf), data):
            raise Unsupported(_READ_ONLY)

    def set_gradient(self, leaf: Tensor, gradient: NumericArray | None) -> None:
        """Give a leaf this gradient; None clears it.

        Raises Unsupported if the leaf keeps its old gradient.
        """
        if gradient is None:
            self.clear_gradient(leaf)
            return
        # After `leaf.grad *= 0.5`, the engine's own array may have changed already.
        if not np.array_equal(np.asarray(self.gradient(leaf)), gradient):
            if match := re.fullmatch(r"t\.(\w+)", self.dialect.gradient):
                self._set(leaf, match[1], gradient)
            if not np.array_equal(np.asarray(self.gradient(leaf)), gradient):
                raise Unsupported("a gradient of this engine cannot be changed from outside")

    def clear_gradient(self, leaf: Tensor) -> None:
        """Reset a leaf's gradient to its initial value, with the engine's method if it has one.

        Raises Unsupported if there is neither such a method nor an attribute that can be set.
        """
        if self.forget(leaf):
            return
        data = leaf.data
        tensors = [tensor for tensor, _ in self.parts(leaf, data)]
        for method in attributes_of(next(iter(tensors), None)):
            if _CLEARS.fullmatch(method) and callable(getattr(tensors[0], method)):
                for tensor in tensors:
                    call_engine(getattr(tensor, method))
                return
        match = re.search(r"t\.(\w+)", self.dialect.gradient)
        name = match[1] if match else "grad"
        new = self.leaf(np.zeros_like(data))
        try:
            for tensor, (initial, _) in zip(tensors, self.parts(new, data), strict=True):
                setattr(tensor, name, copy(getattr(initial, name, None)))
        except (AttributeError, TypeError):
            raise Unsupported("the engine offers no way to clear a gradient") from None

    def _set(self, leaf: Tensor, name: str, data: NumericArray) -> None:
        """Set an attribute of the engine's tensor, if it can be set."""
        with contextlib.suppress(AttributeError, TypeError):
            for tensor, part in self.parts(leaf, data):
                setattr(tensor, name, part)

    # ----- for Tensor and the namespace -----

    def wrap(self, value: Any) -> Any:
        """Return the engine's tensors as `Tensor`, also in tuples and lists, and others as is."""
        if isinstance(value, tuple | list):
            return type(value)(map(self.wrap, value)) if type(value) in (tuple, list) else value
        return value if self.is_plain(value) else Tensor(self, value)

    def is_plain(self, value: Any) -> bool:
        """Whether a value is something other than a tensor of the engine."""
        return value is None or isinstance(value, _PLAIN)

    def unwrap(self, value: Any) -> Any:
        """Return each `Tensor` as the engine's own, also in tuples and lists."""
        if isinstance(value, tuple | list):
            return type(value)(map(self.unwrap, value))
        return value.native if isinstance(value, Tensor) else value

    def operand(self, value: Any) -> Any:
        """Return the other operand of an operator, for the engine: an array becomes a constant."""
        if isinstance(value, np.ndarray):
            return self.new(value.astype(float))
        return self.unwrap(value)

    def names(self, name: str) -> list[str]:
        """Return the names that the engine may use for PyTorch's `name`, the likeliest first."""
        configured = self.dialect.names.get(name, ())
        theirs = (configured,) if isinstance(configured, str) else configured
        last = [dotted.rpartition(".")[2] for dotted in theirs]
        return [*last, name, *ALIASES.get(name, ())]

    def function(self, name: str, options: Collection[str] = ()) -> Any:
        """The function or class of that name in the engine's modules, or None.

        Of several, the first that takes these options; of these, one that the package exports: a
        function of arrays inside it may have the same name.
        """
        for alias in self.names(name):
            functions = [
                function
                for module in self._modules
                if is_op(function := attribute_of(module, alias))
                and not (alias == "T" and isinstance(function, type))
            ]
            if functions:
                taking = [f for f in functions if set(options) <= (parameters_of(f) or {}).keys()]
                exported = attribute_of(self._package, alias)
                candidates = taking or functions
                return op_of(exported if exported in candidates else candidates[0])
        return None

    def method(self, native: Any, name: str) -> Any:
        """The attribute of that name of the engine's own tensor, or None."""
        for alias in self.names(name):
            attribute = getattr(native, alias, None)
            if attribute is not None:
                return attribute
        return None

    def activation(self, native: Any, name: str) -> Callable[..., Any]:
        """The engine's method that is given the name of an activation: `t.activation("tanh")`.

        Raises Unsupported if it has none.
        """
        for verb in ACTIVATES if name in ACTIVATIONS else ():
            if callable(method := self.method(native, verb)):
                return lambda *args: self.apply(method, (name, *args), {})
        raise no_operation(name)

    def overloads(self, native: Any, symbol: str) -> bool:
        """Whether one of the engine's own tensors overloads an operator."""
        kind = type(native)
        return hasattr(kind, f"__{symbol}__") or hasattr(kind, f"__r{symbol}__")

    def apply(
        self,
        function: Callable[..., Any],
        arguments: Any,
        options: dict[str, Any],
        has_implied_axis: Callable[[], bool] = bool,
    ) -> Any:
        """Call one of the engine's functions with unwrapped arguments, and wrap its result."""
        unwrapped = {name: self.unwrap(option) for name, option in options.items()}
        natives = [self.unwrap(argument) for argument in arguments]
        return self.wrap(call(function, natives, unwrapped, has_implied_axis))


class Tensor:
    """One of the engine's tensors (`native`) under PyTorch's names."""

    __array_ufunc__ = None  # with an array on the left, NumPy leaves the operator to this class
    __hash__ = object.__hash__

    def __init__(self, adapter: Adapter, native: Any) -> None:
        self.adapter, self.native = adapter, native

    @property
    def data(self) -> NumericArray:
        """The data as an array."""
        return self.adapter.value(self)

    @data.setter
    def data(self, data: Any) -> None:
        self.adapter.assign(self, np.asarray(data))

    @property
    def grad(self) -> NumericArray | None:
        """The accumulated gradient."""
        return self.adapter.gradient(self)

    @grad.setter
    def grad(self, gradient: Any) -> None:
        self.adapter.set_gradient(self, None if gradient is None else np.asarray(gradient))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.adapter.shape(self)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of the data."""
        return self.adapter.dtype(self)

    def item(self) -> float:
        """The only element, as a number."""
        return float(self.data.item())

    def numpy(self) -> NumericArray:
        """The data as an array."""
        return self.data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NumericArray:
        """The data, for NumPy, which would otherwise make an array of objects."""
        return np.array(self.data, dtype)

    def __bool__(self) -> bool:
        """Whether the only element is not zero."""
        return bool(self.data)

    def detach(self) -> Any:
        """A constant with the same data."""
        return self.adapter.constant(self.data)

    def transpose(self, *axes: int) -> Any:
        """Swap two axes, as PyTorch does; any other number of axes is passed on unchanged."""
        adapter = self.adapter
        if len(axes) != 2:
            return self.__getattr__("transpose")(*axes)
        for name in ("swapaxes", "transpose"):
            function, tensors = self._bound(name)
            if function is not None:
                break
        else:
            raise no_operation("transpose")
        order = list(range(self.ndim))
        order[axes[0]], order[axes[1]] = order[axes[1]], order[axes[0]]
        swaps = name == "swapaxes" or positional(function)[1] - len(tensors) == 2
        if self.ndim == 2 and axes[0] != axes[1]:
            axes = (1, 0)  # both a swap and a permutation
        return adapter.apply(function, (*tensors, *(axes if swaps else order)), {})

    def backward(self, cotangent: Any = None, retain_graph: bool = False) -> None:
        """Run the backward pass from here; the cotangent defaults to ones."""
        value = self.data
        if cotangent is None and not retain_graph and np.shape(value) == ():
            self.adapter.backward_from_loss(self)
            return
        weights = np.ones_like(value) if cotangent is None else self.adapter.value(cotangent)
        run = self.adapter.backward_again if retain_graph else self.adapter.backward
        run(self, weights)

    def retain_grad(self) -> None:
        """Keep the gradient of this result; most engines keep every gradient."""
        retain = self.adapter.method(self.native, "retain_grad")
        if retain is not None:
            call_engine(retain)

    @property
    def T(self) -> Any:  # noqa: N802  PyTorch's name
        """The transpose, with all axes in reverse order."""
        function, tensors = self._bound("T")
        if function is None:
            raise no_operation("T")
        if not callable(function):
            return self.adapter.wrap(function)
        required, most = positional(function)
        takes_axes = required > len(tensors) or most > len(tensors) + 2
        axes = tuple(reversed(range(self.ndim))) if takes_axes else ()
        return self.adapter.apply(function, (*tensors, *axes), {})

    def _bound(self, name: str) -> tuple[Any, tuple[Tensor, ...]]:
        """Return the engine's attribute, or its function and this tensor as its argument."""
        method = self.adapter.method(self.native, name)
        return (method, ()) if method is not None else (self.adapter.function(name), (self,))

    def __getattr__(self, name: str) -> Any:
        """The engine's method of that name, or its function."""
        if name.startswith("__"):
            raise AttributeError(name)
        function, tensors = self._bound(name)
        if function is None:
            return self.adapter.activation(self.native, name)
        if not callable(function):
            return self.adapter.wrap(function)

        def apply(*arguments: Any, **options: Any) -> Any:
            is_implied = partial(self._is_implied, name, arguments)
            return self.adapter.apply(function, (*tensors, *arguments), options, is_implied)

        return apply

    def _is_implied(self, name: str, arguments: Sequence[Any]) -> bool:
        """Whether an op uses this axis if none is given: the only one, or the last one."""
        is_last = name in _ALONG_LAST and arguments[0] in (-1, self.ndim - 1)
        return len(arguments) == 1 and (is_last or self.ndim == 1)

    def __getitem__(self, key: Any) -> Any:
        """Index with the engine's own indexing."""
        key = self.adapter.unwrap(key)
        return self.adapter.wrap(call_engine(operator.getitem, self.native, key))

    def __len__(self) -> int:
        """The length of the first axis."""
        return len(self.data)

    def __neg__(self) -> Any:
        """Negate with the engine's own operator."""
        return self.adapter.wrap(call_engine(operator.neg, self.native))


def _binary(symbol: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An operator and its reflected form."""
    apply = getattr(operator, symbol)

    def evaluate(adapter: Adapter, left: Any, right: Any) -> Any:
        """Use the engine's operator, or its method or function if it does not overload it."""
        tensors = [operand for operand in (left, right) if not adapter.is_plain(operand)]
        if not any(adapter.overloads(tensor, symbol) for tensor in tensors):
            for name in OPERATORS.get(symbol, ()):
                method = None if adapter.is_plain(left) else adapter.method(left, name)
                if callable(method):
                    return adapter.wrap(call_engine(method, right))
                if (function := adapter.function(name)) is not None:
                    return adapter.wrap(call_engine(function, left, right))
        return adapter.wrap(call_engine(apply, left, right))

    def method(self: Tensor, other: Any) -> Any:
        return evaluate(self.adapter, self.native, self.adapter.operand(other))

    def reflected(self: Tensor, other: Any) -> Any:
        return evaluate(self.adapter, self.adapter.operand(other), self.native)

    return method, reflected


def _comparison(symbol: str) -> Callable[[Tensor, Any], NumericArray]:
    compare = getattr(operator, symbol)

    def method(self: Tensor, other: Any) -> NumericArray:
        return self.adapter.compare(compare, self, other)

    return method


for _symbol in ("add", "sub", "mul", "truediv", "pow", "matmul", "floordiv", "mod"):
    _method, _reflected = _binary(_symbol)
    setattr(Tensor, f"__{_symbol}__", _method)
    setattr(Tensor, f"__r{_symbol}__", _reflected)
for _symbol in ("lt", "le", "gt", "ge"):
    setattr(Tensor, f"__{_symbol}__", _comparison(_symbol))
