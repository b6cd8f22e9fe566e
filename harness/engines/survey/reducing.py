"""Functions that sum a gradient to the shape of an operand, however they are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from harness.core.run import NumericArray, message_of
from harness.engines.survey.numbers import Shape, same

Reduce = Callable[[NumericArray, Shape], Any]

ROWS: tuple[Shape, ...] = ((3,), (1, 3))
"""The shapes to which ones((4, 3)) may be summed; the second one for tensors of a fixed rank."""

_UNCHANGED: dict[Shape, Shape] = {(3,): (2, 3), (1, 3): (1, 3)}
"""A shape that a function which sums to this row does not change."""


@dataclass(frozen=True)
class Function:
    """A function of the engine, or a method as a function that is called without an instance."""

    module: str
    name: str
    """The qualified name."""
    call: Any
    method: Any = None
    """The method that is called."""

    @property
    def code(self) -> CodeType | None:
        """Its code, without decorators."""
        code = getattr(inspect.unwrap(self.method or self.call), "__code__", None)
        return code if isinstance(code, CodeType) else None


def functions_of(module: ModuleType) -> Iterator[Function]:
    """Yield the functions of a module and the methods of its classes."""
    for name, value in list(vars(module).items()):
        if inspect.isfunction(value):
            yield Function(module.__name__, name, value)
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for method_name in list(vars(value)):
                method = inspect.getattr_static(value, method_name)
                full = f"{value.__name__}.{method_name}"
                if isinstance(method, staticmethod | classmethod):
                    yield Function(module.__name__, full, getattr(value, method_name))
                elif inspect.isfunction(method) and not method_name.startswith("__"):
                    yield Function(module.__name__, full, _on_blank_instance(value, method), method)


def _on_blank_instance(owner: type, method: Any) -> Any:
    """Return a method as a function, called on an uninitialized instance."""
    return lambda *arguments: method(object.__new__(owner), *arguments)


def mentions_sums(code: CodeType) -> bool:
    """Whether code looks up `sum` or `reduce`, nested functions included."""
    nested = [const for const in code.co_consts if isinstance(const, CodeType)]
    return not {"sum", "reduce"}.isdisjoint(code.co_names) or any(map(mentions_sums, nested))


@dataclass(frozen=True)
class Form:
    """A way to call a reducing function, and which of its arguments is the gradient."""

    gradient: int
    reduce: Reduce


def forms_of(function: Function, library: Any) -> list[Form]:
    """The ways in which the function may be called with a gradient and a shape."""
    call = function.call

    def native(data: NumericArray) -> Any:
        return library.unwrap(library.leaf(data))

    calls: list[tuple[int, Reduce]] = [
        (0, lambda g, shape: call(g, shape)),
        (0, lambda g, shape: call(g, np.zeros(shape))),
        (1, lambda g, shape: call(shape, g)),
        (1, lambda g, shape: call(np.zeros(shape), g)),
        (0, lambda g, shape: call(g, native(np.zeros(shape)))),
        (0, lambda g, shape: call(native(g), shape)),
        (0, lambda g, shape: call(native(g), native(np.zeros(shape)))),
        (0, lambda g, shape: call(g, (shape, len(shape), g.dtype, False))),
        (0, lambda g, shape: call(g, shape, g.shape)),
        (0, lambda g, shape: call(g, g.shape, shape)),
    ]
    if function.method is not None:  # on the gradient itself; otherwise, after the instance
        calls = [(position + 1, reduce) for position, reduce in calls]
        calls.append((0, lambda g, shape: function.method(native(g), shape)))
        calls.append((1, lambda g, shape: function.method(native(np.zeros(shape)), g)))
        calls.append((1, lambda g, shape: function.method(native(np.zeros(shape)), native(g))))
    return [Form(position, _as_array(reduce, library)) for position, reduce in calls]


def _as_array(reduce: Reduce, library: Any) -> Reduce:
    def reduced(g: NumericArray, shape: Shape) -> NumericArray:
        result = reduce(g, shape)
        plain = library.is_plain(result)
        return np.asarray(result) if plain else library.value(library.wrap(result))

    return reduced


def working_form(function: Function, library: Any) -> tuple[int, int] | None:
    """Return the positions of the form that sums ones((4, 3)), and of the row that it sums to."""
    for at, form in enumerate(forms_of(function, library)):
        for row, shape in enumerate(ROWS):
            if _sums_to(form.reduce, shape):
                return at, row
    return None


def _sums_to(reduce: Reduce, row: Shape) -> bool:
    kept = _UNCHANGED[row]
    try:
        summed = reduce(np.ones((4, 3)), row)
        unchanged = reduce(np.ones(kept), kept)
    except BaseException:
        return False
    return same(summed, np.full(row, 4.0)) and same(unchanged, np.ones(kept))


# ----- Flaws -----


@dataclass(frozen=True)
class Flaw:
    """Shapes that a reducing function gets wrong, and its result."""

    shape: Shape
    target: Shape
    result: str

    def __str__(self) -> str:
        """The flaw in one line."""
        return f"{self.shape} to {self.target}: {self.result}"


def flaws_of(reduce: Reduce) -> list[Flaw]:
    """The shapes that a reducing function gets wrong, each with its result."""
    flaws = []
    for shape, target in (
        ((4, 3), (1, 3)),
        ((4, 3), (4, 1)),
        ((2, 4, 3), (3,)),
        ((2, 4, 3), (4, 1)),
        ((1, 3), (3,)),
        ((1, 3), (1, 3)),
        ((4, 3), ()),
    ):
        g = np.arange(float(np.prod(shape))).reshape(shape)
        try:
            actual = reduce(g, target)
        except BaseException as error:
            flaws.append(Flaw(shape, target, f"{type(error).__name__}: {message_of(error)}"))
            continue
        if actual.shape != target:
            flaws.append(Flaw(shape, target, f"the result has shape {actual.shape}"))
        elif not np.allclose(actual, summed(g, target)):
            flaws.append(Flaw(shape, target, "wrong sums"))
    return flaws


def summed(g: NumericArray, shape: Shape) -> NumericArray:
    """The correct un-broadcast: sums over created axes, then over stretched ones."""
    g = g.sum(tuple(range(g.ndim - len(shape))))
    stretched = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return np.asarray(g.sum(stretched, keepdims=True))
