"""Un-broadcasting by behaviour: whatever sums ones((4, 3)) to (3,), whatever it is called."""

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
from harness.engines.survey.numbers import drawn, same
from harness.engines.survey.record import Reducer, Survey

OPS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
}


def reducers_of(task: Survey, library: Any) -> Iterator[tuple[Any, Reducer]]:
    """The functions that sum ones((4, 3)) to (3,), whatever they are called."""
    seen = set()
    files = {str(Path(task.root) / file): file for file in task.sources}
    top = task.dialect.module.partition(".")[0]
    for loaded, module in list(sys.modules.items()):
        # A process that tests the harness may have the same file under another name as well.
        if loaded.partition(".")[0] != top or attribute_of(module, "__file__") not in files:
            continue
        for owner, name, function in functions_of(module):
            code = getattr(inspect.unwrap(function), "__code__", None)
            if code is None or code in seen or code.co_filename not in files:
                continue
            seen.add(code)
            if "sum" not in names_in(code) and "reduce" not in names_in(code):
                continue
            how = reduces(function, library)
            if how is None:
                continue
            yield (
                code,
                Reducer(
                    module=module.__name__,
                    name=f"{owner}.{name}" if owner else name,
                    file=files[code.co_filename],
                    line=code.co_firstlineno,
                    flaws=flaws_of(how),
                ),
            )


def calls_of(use: Callable[..., Any], root: str, library: Any) -> list[tuple[Any, str]]:
    """The engine's code that runs for an op, forward and back, with who called it."""
    calls: list[tuple[Any, str]] = []

    def watch(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            caller = frame.f_back.f_code if frame.f_back else None
            inside = caller is not None and caller.co_filename.startswith(root)
            calls.append((frame.f_code, caller.co_qualname if caller and inside else ""))

    try:
        leaves = {"a": drawn((4, 3)), "b": np.abs(drawn((3,), 1)) + 1.0}
        made = {name: library.leaf(data) for name, data in leaves.items()}
        sys.setprofile(watch)
        try:
            output = library.call(use, (), made)
            library.backward(output, np.ones((4, 3)))
        finally:
            sys.setprofile(None)
    except BaseException:
        return []
    return calls


def functions_of(module: ModuleType) -> Iterator[tuple[str, str, Any]]:
    """The functions of a module and those on its classes, with the class's name."""
    for name, value in list(vars(module).items()):
        if inspect.isfunction(value):
            yield "", name, value
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for each in list(vars(value)):
                found = inspect.getattr_static(value, each)
                if isinstance(found, staticmethod | classmethod):
                    yield value.__name__, each, getattr(value, each)
                elif inspect.isfunction(found) and not each.startswith("__"):
                    yield value.__name__, each, _on_blank(value, found)


def _on_blank(owner: type, function: Any) -> Any:
    """A method as a function: called on an instance that was never initialised."""

    def call(*given: Any) -> Any:
        return function(object.__new__(owner), *given)

    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


def names_in(code: Any) -> set[str]:
    """The names that code looks up, inner functions included."""
    inner = [const for const in code.co_consts if hasattr(const, "co_names")]
    return set(code.co_names).union(*(names_in(each) for each in inner))


Reduce = Callable[[NumericArray, tuple[int, ...]], Any]


def reduces(function: Any, library: Any) -> Reduce | None:
    """How to call it so that it sums down to a shape; None where it does not."""
    opened: Callable[[Any], Any] = library.open
    ways: Sequence[Reduce] = (
        lambda g, shape: function(g, shape),
        lambda g, shape: function(g, np.zeros(shape)),
        lambda g, shape: function(shape, g),
        lambda g, shape: function(np.zeros(shape), g),
        lambda g, shape: function(g, opened(library.leaf(np.zeros(shape)))),
        lambda g, shape: function(opened(library.leaf(g)), shape),
        lambda g, shape: function(opened(library.leaf(g)), opened(library.leaf(np.zeros(shape)))),
        lambda g, shape: function(g, (shape, len(shape), g.dtype, False)),
        lambda g, shape: function(g, shape, g.shape),
        lambda g, shape: function(g, g.shape, shape),
    )
    for way in ways:

        def plain(g: NumericArray, shape: tuple[int, ...], way: Reduce = way) -> Any:
            made = way(g, shape)
            return np.asarray(made) if library.is_plain(made) else library.value(library.wrap(made))

        try:
            summed = plain(np.ones((4, 3)), (3,))
            kept = plain(np.ones((2, 3)), (2, 3))
        except BaseException:
            continue
        if same(summed, np.full(3, 4.0)) and same(kept, np.ones((2, 3))):
            return plain
    return None


def flaws_of(reduce: Reduce) -> list[str]:
    """The shapes that it gets wrong."""
    flaws = []
    for given, wanted in (
        ((4, 3), (1, 3)),
        ((4, 3), (4, 1)),
        ((2, 4, 3), (3,)),
        ((2, 4, 3), (4, 1)),
        ((1, 3), (3,)),
        ((1, 3), (1, 3)),
        ((4, 3), ()),
    ):
        g = np.arange(float(np.prod(given))).reshape(given)
        right = _summed(g, wanted)
        try:
            seen = reduce(g, wanted)
        except BaseException as error:
            flaws.append(f"{given} to {wanted}: {type(error).__name__}: {message_of(error)}")
            continue
        if seen.shape != wanted:
            flaws.append(f"{given} to {wanted}: the result has shape {seen.shape}")
        elif not np.allclose(seen, right):
            flaws.append(f"{given} to {wanted}: wrong sums")
    return flaws


def _summed(g: NumericArray, shape: tuple[int, ...]) -> NumericArray:
    """What every un-broadcasting should give: sums over created, then over stretched axes."""
    g = g.sum(tuple(range(g.ndim - len(shape))))
    stretched = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return np.asarray(g.sum(stretched, keepdims=True))


def only_by(calls: dict[str, list[tuple[Any, str]]]) -> dict[str, list[str]]:
    """The functions that one op runs and no other does."""
    ran = {op: {code.co_qualname for code, _ in pairs} for op, pairs in calls.items()}
    return {
        op: sorted(names - set().union(*(n for other, n in ran.items() if other != op)))
        for op, names in ran.items()
    }
