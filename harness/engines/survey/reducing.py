"""Functions that sum a gradient to the shape of an operand, and an engine without them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from harness.core.run import NumericArray, message_of
from harness.engines.survey.attempts import Attempts, Shape, same, sample

Reduce = Callable[[NumericArray, Shape], Any]

ROWS: tuple[Shape, ...] = ((3,), (1, 3))
"""The shapes to which ones((4, 3)) may be summed; the second one for tensors of a fixed rank."""

_UNCHANGED: dict[Shape, Shape] = {(3,): (2, 3), (1, 3): (1, 3)}
"""A shape that a function which sums to this row does not change."""


@dataclass(frozen=True)
class EngineFunction:
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


def functions_of(module: ModuleType) -> Iterator[EngineFunction]:
    """Yield the functions of a module and the methods of its classes."""
    for name, value in list(vars(module).items()):
        if inspect.isfunction(value):
            yield EngineFunction(module.__name__, name, value)
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for method_name in list(vars(value)):
                method = inspect.getattr_static(value, method_name)
                full = f"{value.__name__}.{method_name}"
                if isinstance(method, staticmethod | classmethod):
                    yield EngineFunction(module.__name__, full, getattr(value, method_name))
                elif inspect.isfunction(method) and not method_name.startswith("__"):
                    yield EngineFunction(
                        module.__name__, full, _on_blank_instance(value, method), method
                    )


def _on_blank_instance(owner: type, method: Any) -> Any:
    """Return a method as a function, called on an uninitialized instance."""
    return lambda *arguments: method(object.__new__(owner), *arguments)


def mentions_sums(code: CodeType) -> bool:
    """Whether code looks up `sum` or `reduce`, nested functions included."""
    nested = [const for const in code.co_consts if isinstance(const, CodeType)]
    return not {"sum", "reduce"}.isdisjoint(code.co_names) or any(map(mentions_sums, nested))


@dataclass(frozen=True)
class CallForm:
    """A way to call a reducing function, and which of its arguments is the gradient."""

    gradient: int
    reduce: Reduce


def forms_of(function: EngineFunction, library: Any) -> list[CallForm]:
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
        (0, lambda g, shape: call(g, **{_second_of(function): shape})),
        (0, lambda g, shape: call(native(g), **{_second_of(function): shape})),
        (0, lambda g, shape: call(g, shape, g.shape)),
        (0, lambda g, shape: call(g, g.shape, shape)),
    ]
    if function.method is not None:  # on the gradient itself; otherwise, after the instance
        calls = [(position + 1, reduce) for position, reduce in calls]
        calls.append((0, lambda g, shape: function.method(native(g), shape)))
        calls.append((1, lambda g, shape: function.method(native(np.zeros(shape)), g)))
        calls.append((1, lambda g, shape: function.method(native(np.zeros(shape)), native(g))))
    return [CallForm(position, _as_array(reduce, library)) for position, reduce in calls]


def _second_of(function: EngineFunction) -> str:
    """The name of the argument after the gradient. Raises ValueError if there is no other."""
    names = [
        name
        for name, parameter in inspect.signature(
            function.method or function.call
        ).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    _, name = names[-2:]
    return name


def _as_array(reduce: Reduce, library: Any) -> Reduce:
    def reduced(g: NumericArray, shape: Shape) -> NumericArray:
        result = reduce(g, shape)
        plain = library.is_plain(result)
        return np.asarray(result) if plain else library.value(library.wrap(result))

    return reduced


def working_form(function: EngineFunction, library: Any) -> tuple[int, int] | None:
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


# ----- A gradient that was not summed to the shape of its tensor -----
#
# The functions that sum are replaced by ones that return the gradient as it is. If an engine has no
# such function, the buffer of a tensor is replaced by one of another shape. Both happen in a fork.

OpUse = Callable[..., Any]
"""An op, applied to two tensors."""
Keeper = tuple[EngineFunction, int]
"""A function that sums, and which of its arguments is the gradient."""

FULL: Shape = (4, 3)

_ARGUMENT = (
    lambda *values, **named: (*values, *named.values())[0],
    lambda *values, **named: (*values, *named.values())[1],
    lambda *values, **named: (*values, *named.values())[2],
)

_MISUSE = (TypeError, AttributeError, NameError)
"""Exceptions that a replaced function may cause in code that expects more of it."""


def unsummed(
    library: Any, ops: Mapping[str, OpUse], keepers: Mapping[str, list[Keeper]], attempts: Attempts
) -> dict[str, str]:
    """Return what happened in a `leaf` and `inside` the graph; nothing if it cannot be tried."""
    op = next((op for op, functions in keepers.items() if functions), "add")
    functions = keepers.get(op, [])
    work = (
        partial(_without_sums, library, ops[op], functions)
        if functions
        else partial(_with_another_buffer, library, ops[op])
    )
    results = {
        where: attempts.apart(where, partial(work, inside=where == "inside"), str)
        for where in ("leaf", "inside")
    }
    return {where: result for where, result in results.items() if result}


def row_of(library: Any) -> Shape:
    """The shape of a row that the engine stores as it is."""
    for shape in ((3,), (1, 3)):
        try:
            if library.value(library.leaf(sample(shape))).shape == shape:
                return shape
        except Exception:  # refused
            continue
    return (3,)


def _without_sums(
    library: Any, use: Callable[..., Any], functions: list[Keeper], *, inside: bool
) -> str:
    """Replace the functions, and add a row to a matrix."""
    row = row_of(library)
    for function, position in functions:
        _return_argument(inspect.unwrap(function.method or function.call), position)
    a, other, full = (library.leaf(sample(s, seed)) for seed, s in enumerate((row, row, FULL)))
    narrow = use(a, other) if inside else a
    return _observe(library, use(narrow, full), a, lambda g: g.shape == FULL)


def _return_argument(function: Any, position: int) -> None:
    """Let a function return one of its arguments. Raises ValueError for a closure."""
    if inspect.ismethod(function):  # of a class, which is its first argument
        function, position = function.__func__, position + 1
    function.__code__ = _ARGUMENT[position].__code__
    function.__defaults__ = function.__kwdefaults__ = None


_MARK = 7.0


def _with_another_buffer(library: Any, use: OpUse, *, inside: bool) -> str:
    """Give a tensor a row as its buffer, filled with a number that shows in what is added to it."""
    attribute = re.fullmatch(r"t\.(\w+)", library.dialect.gradient)
    a, b, other = (library.leaf(sample(FULL, seed)) for seed in range(3))
    changed = use(a, other) if inside else a
    output = use(changed, b)
    buffer = getattr(changed.native, attribute[1], None) if attribute else None
    if attribute is None or not isinstance(buffer, np.ndarray) or buffer.shape != FULL:
        return ""
    setattr(changed.native, attribute[1], np.full(row_of(library), _MARK))
    return _observe(library, output, a, lambda g: bool(np.all(g == _MARK + 1)))


def _observe(
    library: Any, output: Any, leaf: Any, is_unsummed: Callable[[NumericArray], bool]
) -> str:
    try:
        library.backward(output, np.ones(FULL))
        gradient = library.gradient(leaf)
    except _MISUSE:
        return ""
    except Exception:
        return "crash"
    return "stored" if gradient is not None and is_unsummed(gradient) else ""
