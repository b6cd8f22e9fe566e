"""What a call can change: the arrays and containers that its arguments refer to.

Two versions of a function can run on the same arguments, one after the other: a `Heap` remembers
what the arguments refer to, says which numbers a call has written there, and restores them.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import random
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from operator import is_
from types import (
    BuiltinFunctionType,
    CellType,
    FrameType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from harness.core.run import NUMERIC, NumericArray

Numbers = dict[str, NumericArray]
"""Copies of arrays, by the expressions that name them: `returned[0]`, `self.grad`."""

MOST_OBJECTS, MOST_BYTES = 4000, 32 * 1024 * 1024
"""The size of what is remembered."""

DEPTH = 6
"""The depth to which the numbers in a value are looked for."""

_SKIPPED = (
    *(type, ModuleType, BuiltinFunctionType, str, bytes, int, float, complex, np.generic),
    *(logging.Logger, logging.LoggerAdapter),  # they lead to open files
)
_SCALARS = (bool, int, float, complex, np.number, np.bool_)


class CannotCompare(Exception):
    """Two versions of a function cannot run on the same arguments here."""


def is_tensor(value: object) -> bool:
    """Whether a value is a tensor of PyTorch."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)  # a stand-in may lack it
    return isinstance(tensor, type) and isinstance(value, tensor)


def is_jax(value: object) -> bool:
    """Whether a value is an array of JAX, which nothing can write into."""
    array = getattr(sys.modules.get("jax"), "Array", None)
    return isinstance(array, type) and isinstance(value, array)


def copied(value: Any) -> NumericArray:
    """Return a copy of the numbers of an array, a tensor or a number. Raises CannotCompare."""
    if is_jax(value):
        if isinstance(value, sys.modules["jax"].core.Tracer):  # it has no numbers yet
            raise CannotCompare
        plain = np.asarray(value)
        return np.array(plain if plain.dtype.kind in NUMERIC else plain.astype(float))  # bfloat16
    if is_tensor(value):
        try:
            plain = value.detach().to_dense() if value.layout != _strided() else value.detach()
            plain = plain.cpu().resolve_conj().resolve_neg()
            wide = plain.double() if plain.dtype.itemsize == 2 else plain  # bfloat16
            return np.array(wide.numpy())
        except (RuntimeError, NotImplementedError, TypeError) as error:
            raise CannotCompare from error
    return np.array(value)


def _strided() -> Any:
    return sys.modules["torch"].strided


def arrays_in(value: Any, label: str) -> Iterator[tuple[str, Any]]:
    """Yield the arrays of all kinds and the numbers in a value and its parts, with their labels.

    Of a node of a graph, the nodes that it was computed from are not looked at.
    """
    yield from _arrays(value, label, (), DEPTH)


def _arrays(
    value: Any, label: str, path: tuple[type, ...], depth: int
) -> Iterator[tuple[str, Any]]:
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        value = value.tolist()
    if isinstance(value, np.ndarray):
        if value.dtype.kind in NUMERIC:
            yield label, value
    elif is_jax(value):
        yield label, value
    elif is_tensor(value):
        yield label, value
        if value.is_leaf and value.grad is not None:
            yield f"{label}.grad", value.grad
    elif isinstance(value, _SCALARS):
        yield label, value
    elif depth and value is not None and not isinstance(value, (*_SKIPPED, *_FUNCTIONS)):
        if isinstance(value, list | tuple | deque):
            for i, item in enumerate(value):
                yield from _arrays(item, f"{label}[{i}]", path, depth - 1)
        elif isinstance(value, dict):
            for i, (key, item) in enumerate(list(value.items())):
                yield from _arrays(item, f"{label}[{_name(key, i)}]", path, depth - 1)
        elif type(value) not in path:
            for name, item in list(attributes(value).items()):
                yield from _arrays(item, f"{label}.{name}", (*path, type(value)), depth - 1)


_FUNCTIONS = (FunctionType, MethodType)


def _name(key: object, position: int) -> str:
    return repr(key) if isinstance(key, str | int) else f"{type(key).__name__} {position}"


def attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an instance, also those in slots."""
    found: dict[str, Any] = {}
    kind = type(value)
    if kind not in _SLOTS:
        _SLOTS[kind] = list(_slots_of(kind))
    for name, attribute in _SLOTS[kind]:
        with contextlib.suppress(AttributeError):
            found[name] = object.__getattribute__(value, attribute)
    own = getattr(value, "__dict__", None)
    return found | own if isinstance(own, dict) else found


_SLOTS: dict[type, Sequence[tuple[str, str]]] = {}
"""The slots of the types that were looked at."""


def _slots_of(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the names of the slots of instances, with those of the attributes."""
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else slots
        yield from ((name, _mangled(name, base)) for name in names if name not in _NO_SLOTS)


_NO_SLOTS = ("__dict__", "__weakref__")


def _mangled(name: str, kind: type) -> str:
    hidden = name.startswith("__") and not name.endswith("__")
    return f"_{kind.__name__.lstrip('_')}{name}" if hidden else name


def numbers_in(value: Any, label: str) -> Numbers:
    """Return copies of the numbers in a value. Raises CannotCompare."""
    return {name: copied(array) for name, array in arrays_in(value, label)}


def holders(
    array: NumericArray,
    own: Sequence[object],
    arguments: Mapping[str, Any],
    containers: Iterable[object],
) -> int:
    """Return in how many places of objects, containers and enclosing functions an array is held.

    Parameters
    ----------
    own : sequence
        Dictionaries and heaps that do not count.
    arguments : mapping
        The arguments of the call; lists of them do not count either.
    containers : iterable
        Places to look at besides those that the garbage collector knows, which ignores a dictionary
        of arrays.
    """
    seen = [one._seen for one in own if isinstance(one, Heap)]
    ours = {id(one) for one in (*own, *seen)}
    ours |= {id(cell) for one in own if isinstance(one, Heap) for cell in one.cells()}
    given, count = list(arguments.values()), 0

    def is_ours(values: Collection[Any]) -> bool:
        """Whether these are the arguments: the values to call a function with."""
        return len(values) == len(given) and all(map(is_, values, given))

    places = gc.get_referrers(array)
    known = set(map(id, places))
    places += {id(one): one for one in containers if id(one) not in known}.values()
    for place in places:
        if id(place) in ours or isinstance(place, FrameType | partial):
            continue
        if isinstance(place, dict | list | tuple | deque):
            values = place.values() if isinstance(place, dict) else place
            if not is_ours(values) and not _is_walked(place, places):
                count += sum(map(is_, values, repeat(array)))  # a generator would hold it, too
        else:
            count += 1
    return count


def _is_walked(items: object, places: object) -> bool:
    """Whether only an iterator holds a list or a tuple, such as the cotangents of a rule."""
    others = [
        one
        for one in gc.get_referrers(items)
        if one is not places and not isinstance(one, FrameType)
    ]
    return bool(others) and all(isinstance(one, _ITERATORS) for one in others)


_ITERATORS: tuple[type, ...] = type(iter(())), type(iter([]))


class Heap:
    """The contents of everything that some values refer to.

    Raises CannotCompare if there is too much of it, or if something cannot be restored.
    """

    def __init__(self, roots: Mapping[str, Any], variables: dict[str, Any] | None = None) -> None:
        """Remember the values; `variables` are those of a module, which may be bound anew."""
        self._undo: list[Callable[[], None]] = []
        self._written: list[Callable[[], Numbers]] = []
        self.before: Numbers = {}
        """The numbers of the arrays."""
        self._seen: dict[int, Any] = {}
        self._bytes = 0
        pending = deque(roots.items())
        pending.extend(self._variables(variables or {}))
        while pending:
            label, value = pending.popleft()
            if value is None or isinstance(value, _SKIPPED) or id(value) in self._seen:
                continue
            self._seen[id(value)] = value
            if len(self._seen) > MOST_OBJECTS or self._bytes > MOST_BYTES:
                raise CannotCompare
            pending.extend(self._remember(label, value))

    def holds_all(self, values: Sequence[Any]) -> bool:
        """Whether all of these are objects that the call was given, apart from arrays."""
        return all(id(one) in self._seen and not isinstance(one, np.ndarray) for one in values)

    def cells(self) -> Iterator[CellType]:
        """Yield the variables of the functions that undo and report."""
        pending: list[Any] = [*self._undo, *self._written]
        while pending:
            function = pending.pop()
            for cell in getattr(function, "__closure__", None) or ():
                yield cell
                if isinstance(cell.cell_contents, FunctionType):
                    pending.append(cell.cell_contents)

    def restore(self) -> None:
        """Restore the contents of everything."""
        for undo in self._undo:
            undo()

    def written(self) -> Numbers:
        """Return the numbers that have been written since."""
        return {name: array for one in self._written for name, array in one().items()}

    def _remember(self, label: str, value: Any) -> Iterator[tuple[str, Any]]:
        """Remember the contents of an object; yield what it refers to."""
        if isinstance(value, np.ndarray) and value.dtype.kind != "O":
            self._array(label, value)
        elif is_tensor(value):
            yield from self._tensor(label, value)
        elif is_jax(value):
            self.before[label] = copied(value)
        elif isinstance(value, np.random.Generator):
            self._state(value.bit_generator, "state")
        elif isinstance(value, FunctionType):
            for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
                yield from self._cell(name, cell)
        elif isinstance(value, MethodType):
            yield f"{label}.__self__", value.__self__
        elif isinstance(value, CellType):
            yield from self._cell(label, value)
        elif isinstance(value, np.ndarray):
            yield from self._objects(label, value)
        elif isinstance(value, list | deque):
            yield from self._list(label, value)
        elif isinstance(value, dict):
            yield from self._dict(label, value, "[{}]")
        elif isinstance(value, set):
            yield from self._set(label, value)
        elif isinstance(value, tuple | frozenset):
            yield from ((f"{label}[{i}]", item) for i, item in enumerate(value))
        elif hasattr(value, "__next__"):  # what it yields next cannot be restored
            raise CannotCompare
        else:
            yield from self._instance(label, value)

    def _variables(self, table: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        content = {
            name: value
            for name, value in table.items()
            if not name.startswith("__") and not isinstance(value, (ModuleType, type, FunctionType))
        }

        def undo() -> None:
            for name, value in content.items():
                if table.get(name) is not value:
                    table[name] = value

        self._undo.append(undo)
        for name, value in content.items():
            self._binding(f"global {name}", value, partial(table.get, name))
            yield f"global {name}", value

    def _array(self, label: str, array: NumericArray) -> None:
        content = array.copy()
        self._bytes += content.nbytes

        def undo() -> None:
            if not _identical(array, content):
                array[...] = content

        self._undo.append(undo)
        self._numbers(label, array, lambda: not _identical(array, content))

    def _numbers(self, label: str, value: Any, changed: Callable[[], bool]) -> None:
        """Let `written` return the numbers in a value if it has changed."""
        self.before.update(numbers_in(value, label) if isinstance(value, np.ndarray) else {})
        self._written.append(lambda: numbers_in(value, label) if changed() else {})

    def _tensor(self, label: str, tensor: Any) -> Iterator[tuple[str, Any]]:
        torch = sys.modules["torch"]
        with torch.no_grad():
            content = tensor.detach().clone()
        self._bytes += content.nbytes
        gradient = tensor.grad if tensor.is_leaf else None

        def is_same() -> bool:
            return _identical(copied(tensor), copied(content))

        def undo() -> None:
            if not is_same():
                tensor.data.copy_(content)  # so that the version does not change
            if tensor.is_leaf and tensor.grad is not gradient:
                tensor.grad = gradient

        self.before[label] = copied(content)
        self._undo.append(undo)
        self._written.append(lambda: {} if is_same() else {label: copied(tensor)})
        if tensor.is_leaf:
            self._written.append(
                lambda: {} if tensor.grad is gradient else numbers_in(tensor.grad, f"{label}.grad")
            )
        yield f"{label}.grad", gradient

    def _cell(self, label: str, cell: CellType) -> Iterator[tuple[str, Any]]:
        try:
            content = cell.cell_contents
        except ValueError:  # it is empty
            return

        def undo() -> None:
            if cell.cell_contents is not content:
                cell.cell_contents = content

        self._undo.append(undo)
        self._binding(label, content, lambda: cell.cell_contents)
        yield label, content

    def _binding(self, label: str, content: Any, read: Callable[[], Any]) -> None:
        """Let `written` return what a name is bound to, if that has changed."""
        if isinstance(content, _SCALARS):
            self.before[label] = np.array(content)

        def written() -> Numbers:
            now = read()
            return {} if now is content else numbers_in(now, label)

        self._written.append(written)

    def _objects(self, label: str, array: NumericArray) -> Iterator[tuple[str, Any]]:
        content = array.copy()

        def undo() -> None:
            if not _same_items(array.flat, content.flat):
                array[...] = content

        self._undo.append(undo)
        yield from ((f"{label}[{i}]", item) for i, item in enumerate(content.flat))

    def _list(self, label: str, items: Any) -> Iterator[tuple[str, Any]]:
        content = list(items)

        def undo() -> None:
            if not _same_items(items, content):
                items.clear()
                items.extend(content)

        self._undo.append(undo)
        self._written.append(
            lambda: {} if _same_items(items, content) else numbers_in(items, label)
        )
        yield from ((f"{label}[{i}]", item) for i, item in enumerate(content))

    def _dict(self, label: str, table: Any, form: str) -> Iterator[tuple[str, Any]]:
        content = dict(table)

        def undo() -> None:
            same = len(table) == len(content) and _same_items(table.values(), content.values())
            if not same:
                table.clear()
                table.update(content)

        def written() -> Numbers:
            found: Numbers = {}
            for i, key in enumerate([*content, *(key for key in table if key not in content)]):
                if table.get(key) is not content.get(key):
                    found |= numbers_in(table.get(key), label + form.format(_key(key, i, form)))
            return found

        self._undo.append(undo)
        self._written.append(written)
        for i, (key, value) in enumerate(content.items()):
            name = label + form.format(_key(key, i, form))
            if isinstance(value, _SCALARS):
                self.before[name] = np.array(value)
            yield name, value
            yield f"{label}.keys", key

    def _set(self, label: str, items: set[Any]) -> Iterator[tuple[str, Any]]:
        content = set(items)

        def undo() -> None:
            if items != content:
                items.clear()
                items.update(content)

        self._undo.append(undo)
        yield from ((f"{label}{{}}", item) for item in content)

    def _instance(self, label: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, random.Random):
            state = value.getstate()
            self._undo.append(lambda: value.setstate(state))
        elif isinstance(value, np.random.RandomState):
            legacy = value.get_state()
            self._undo.append(lambda: value.set_state(legacy))
        elif type(value).__module__ == "torch._C" and hasattr(value, "get_state"):
            tensor = value.get_state()
            self._undo.append(lambda: value.set_state(tensor))
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            yield from self._dict(label, own, ".{}")
        slots = {k: v for k, v in attributes(value).items() if not (own and k in own)}
        for name, content in slots.items():
            yield from self._slot(f"{label}.{name}", value, name, content)
        if hasattr(value, "saved_tensors"):
            with contextlib.suppress(RuntimeError):  # they have been freed, or are not saved yet
                yield f"{label}.saved_tensors", value.saved_tensors

    def _slot(self, label: str, value: Any, name: str, content: Any) -> Iterator[tuple[str, Any]]:
        def undo() -> None:
            if getattr(value, name, None) is not content:
                object.__setattr__(value, name, content)

        self._undo.append(undo)
        self._binding(label, content, lambda: getattr(value, name, None))
        yield label, content

    def _state(self, value: Any, attribute: str) -> None:
        state = getattr(value, attribute)
        self._undo.append(lambda: setattr(value, attribute, state))


def _key(key: object, position: int, form: str) -> str:
    return str(key) if form.startswith(".") else _name(key, position)


def _identical(one: NumericArray, other: NumericArray) -> bool:
    """Whether two arrays are equal bit for bit, so that NaN equals itself."""
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def _same_items(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
