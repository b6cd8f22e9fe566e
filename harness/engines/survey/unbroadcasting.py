"""Finding functions that un-broadcast by their behaviour: they sum ones((4, 3)) to (3,)."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from harness.core.run import NumericArray, message_of
from harness.engines.adapter.calling import attribute_of
from harness.engines.survey import Reducer, Survey
from harness.engines.survey.numbers import same, sample

OPS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
}


def reducers_of(task: Survey, library: Any) -> Iterator[tuple[Any, Reducer]]:
    """Yield the code of each function that sums ones((4, 3)) to (3,), and its description."""
    visited = set()
    files = {str(Path(task.root) / file): file for file in task.sources}
    top = task.dialect.module.partition(".")[0]
    for imported, module in list(sys.modules.items()):
        # In tests of the harness, the same file may also be imported under another name.
        if imported.partition(".")[0] != top or attribute_of(module, "__file__") not in files:
            continue
        for owner, name, function in functions_of(module):
            code = getattr(inspect.unwrap(function), "__code__", None)
            if code is None or code in visited or code.co_filename not in files:
                continue
            visited.add(code)
            if "sum" not in names_in(code) and "reduce" not in names_in(code):
                continue
            reduce = reducing_call(function, library)
            if reduce is None:
                continue
            yield (
                code,
                Reducer(
                    module=module.__name__,
                    name=f"{owner}.{name}" if owner else name,
                    file=files[code.co_filename],
                    line=code.co_firstlineno,
                    flaws=flaws_of(reduce),
                ),
            )


def calls_of(use: Callable[..., Any], root: str, library: Any) -> list[tuple[Any, str]]:
    """The engine's code that runs for an op, forward and backward, with its callers."""
    calls: list[tuple[Any, str]] = []

    def record(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            caller = frame.f_back.f_code if frame.f_back else None
            inside = caller is not None and caller.co_filename.startswith(root)
            calls.append((frame.f_code, caller.co_qualname if caller and inside else ""))

    try:
        values = {"a": sample((4, 3)), "b": np.abs(sample((3,), 1)) + 1.0}
        leaves = {name: library.leaf(data) for name, data in values.items()}
        sys.setprofile(record)
        try:
            output = library.call(use, (), leaves)
            library.backward(output, np.ones((4, 3)))
        finally:
            sys.setprofile(None)
    except BaseException:
        return []
    return calls


def functions_of(module: ModuleType) -> Iterator[tuple[str, str, Any]]:
    """Yield the functions of a module and the methods of its classes, with the class's name."""
    for name, value in list(vars(module).items()):
        if inspect.isfunction(value):
            yield "", name, value
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for method_name in list(vars(value)):
                method = inspect.getattr_static(value, method_name)
                if isinstance(method, staticmethod | classmethod):
                    yield value.__name__, method_name, getattr(value, method_name)
                elif inspect.isfunction(method) and not method_name.startswith("__"):
                    yield value.__name__, method_name, _on_blank_instance(value, method)


def _on_blank_instance(owner: type, function: Any) -> Any:
    """Return a method as a function, called on an uninitialized instance."""

    def call(*arguments: Any) -> Any:
        return function(object.__new__(owner), *arguments)

    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


def names_in(code: Any) -> set[str]:
    """The names that code looks up, nested functions included."""
    nested = [const for const in code.co_consts if hasattr(const, "co_names")]
    return set(code.co_names).union(*map(names_in, nested))


Reduce = Callable[[NumericArray, tuple[int, ...]], Any]


def reducing_call(function: Any, library: Any) -> Reduce | None:
    """Return a call of the function that sums an array to a shape, or None if there is none."""

    def native(data: NumericArray) -> Any:
        return library.unwrap(library.leaf(data))

    calls: Sequence[Reduce] = (
        lambda g, shape: function(g, shape),
        lambda g, shape: function(g, np.zeros(shape)),
        lambda g, shape: function(shape, g),
        lambda g, shape: function(np.zeros(shape), g),
        lambda g, shape: function(g, native(np.zeros(shape))),
        lambda g, shape: function(native(g), shape),
        lambda g, shape: function(native(g), native(np.zeros(shape))),
        lambda g, shape: function(g, (shape, len(shape), g.dtype, False)),
        lambda g, shape: function(g, shape, g.shape),
        lambda g, shape: function(g, g.shape, shape),
    )
    for call in calls:

        def reduce(g: NumericArray, shape: tuple[int, ...], call: Reduce = call) -> Any:
            result = call(g, shape)
            plain = library.is_plain(result)
            return np.asarray(result) if plain else library.value(library.wrap(result))

        try:
            summed = reduce(np.ones((4, 3)), (3,))
            unchanged = reduce(np.ones((2, 3)), (2, 3))
        except BaseException:
            continue
        if same(summed, np.full(3, 4.0)) and same(unchanged, np.ones((2, 3))):
            return reduce
    return None


def flaws_of(reduce: Reduce) -> list[str]:
    """The shapes that a reducing call gets wrong, each with its result."""
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
            flaws.append(f"{shape} to {target}: {type(error).__name__}: {message_of(error)}")
            continue
        if actual.shape != target:
            flaws.append(f"{shape} to {target}: the result has shape {actual.shape}")
        elif not np.allclose(actual, _summed(g, target)):
            flaws.append(f"{shape} to {target}: wrong sums")
    return flaws


def _summed(g: NumericArray, shape: tuple[int, ...]) -> NumericArray:
    """The correct un-broadcast: sums over created axes, then over stretched ones."""
    g = g.sum(tuple(range(g.ndim - len(shape))))
    stretched = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return np.asarray(g.sum(stretched, keepdims=True))


def only_by(calls: dict[str, list[tuple[Any, str]]]) -> dict[str, list[str]]:
    """The functions that run for one op only, by op."""
    ran = {op: {code.co_qualname for code, _ in pairs} for op, pairs in calls.items()}
    return {
        op: sorted(names - set().union(*(n for other, n in ran.items() if other != op)))
        for op, names in ran.items()
    }
