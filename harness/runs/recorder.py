"""The trail of a run: digests of the values at the patch's sites, in the order of execution.

A fault that is reached has *infected* the program if something at a patched site has another value
than at the same site of the unpatched engine. Both engines are compiled with calls of the recorder
at the sites (see `harness.engines.reach`). So values are recorded in the frame of the patched
function, even in a closure, and nothing is evaluated twice.

Two trails are compared name by name. A name in only one of them is a variable that the patch adds
or removes: if its value matters, it changes other variables as well.
"""

from __future__ import annotations

import builtins
import contextlib
import zlib
from collections.abc import Iterable, Mapping
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from harness.core.site import HOOKS, Hooks

DEPTH = 5
"""The depth to which the parts of a value are digested."""

PARTS = 500
"""The number of parts of a value that are digested: a node may refer to the whole graph."""

ENDS = 32
"""The number of parts that are digested at either end of a long sequence."""

BUDGET = 100_000
"""The number of parts that are digested in a run; after that, values are only counted. Runs that
are equal up to there exhaust it at the same place."""


class Recorder:
    """Records what the sites do since the last `clear`."""

    def __init__(self) -> None:
        self.executed: set[int] = set()
        self.trail: dict[str, int] = {}
        self.digested = 0
        self.paused = False

    def install(self, hooks: Hooks = HOOKS) -> None:
        """Define the builtins that instrumented code calls, for each hook that records anything."""
        for name, function in (
            (HOOKS.marker, self.mark if hooks.value else self.mark_only),
            (HOOKS.value, self.value),
            (HOOKS.frame, self.frame),
            (HOOKS.locals, locals),
        ):
            setattr(builtins, name, function)

    def clear(self) -> None:
        """Discard everything, and continue recording."""
        self.paused = False
        self.executed.clear()
        self.trail.clear()
        self.digested = 0

    def mark(self, site: int) -> bool:
        """Record that a site is about to be executed."""
        if self.paused:
            return True
        self.executed.add(site)
        self._count(f"{site} executed")
        return True

    def mark_only(self, site: int) -> bool:
        """Like `mark`, for code that records nothing else about the site."""
        if not self.paused:
            self.executed.add(site)
        return True

    def value(self, site: int, value: Any) -> Any:
        """Record that a site evaluates to `value`, or returns it; return the value."""
        if not self.paused:
            self._note(f"{site} value", value)
        return value

    def frame(self, site: int, variables: Mapping[str, Any], names: Iterable[str]) -> None:
        """Record that a site is done, and those of its `variables` that the patch names."""
        if self.paused:
            return
        self._count(f"{site} done")
        for name in names:
            if name in variables:
                self._note(f"{site}.{name}", variables[name])

    def _count(self, key: str) -> None:
        self.trail[key] = self.trail.get(key, 0) + 1

    def _note(self, key: str, value: Any) -> None:
        digest, digester = 0, _Digest()
        if self.digested < BUDGET:
            # An attribute may raise, or the stack may be exhausted.
            with contextlib.suppress(Exception):
                digest = digester.of(value, DEPTH)
            self.digested += digester.parts
        self.trail[key] = zlib.crc32(digest.to_bytes(4), self.trail.get(key, 0))


class _Digest:
    """A checksum of a value and its parts, which is the same for equal values in any process."""

    def __init__(self) -> None:
        self.visited: set[int] = set()
        self.parts = 0

    def of(self, value: Any, depth: int) -> int:
        """Return the checksum; parts below `depth`, and repeated ones, count by their type only."""
        self.parts += 1
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            if array.dtype.kind == "O":
                return self._all("array", array.ravel().tolist(), depth)
            return zlib.crc32(
                array.tobytes(), zlib.crc32(f"{array.dtype.str}{array.shape}".encode())
            )
        if value is None or isinstance(value, bool | int | float | complex | str | bytes | slice):
            return zlib.crc32(f"{type(value).__name__}{value!r}".encode())
        if isinstance(value, type | ModuleType | FunctionType | BuiltinFunctionType | MethodType):
            return self._function(value, depth)
        name = type(value).__qualname__
        if depth == 0 or id(value) in self.visited or self.parts > PARTS:
            return zlib.crc32(name.encode())
        self.visited.add(id(value))
        if isinstance(value, list | tuple):
            ends = value if len(value) <= 2 * ENDS else (len(value), *value[:ENDS], *value[-ENDS:])
            return self._all(name, ends, depth)
        if isinstance(value, set | frozenset) and len(value) > 2 * ENDS:
            return self._all(name, [len(value)], depth)
        if isinstance(value, set | frozenset):
            return zlib.crc32(str(sorted(self.of(item, depth - 1) for item in value)).encode())
        if isinstance(value, dict):
            items = list(islice(value.items(), 2 * ENDS))
            return self._all(name, [len(value), *(p for item in items for p in item)], depth)
        if isinstance(value, np.random.Generator):
            return self._all(name, [value.bit_generator.state], depth)
        return self._all(name, _attributes(value), depth)

    def _function(self, value: Any, depth: int) -> int:
        """Functions count by name, closures by the values of their cells as well."""
        name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
        cells = getattr(value, "__closure__", None) or () if depth else ()
        contents = [cell.cell_contents for cell in cells if _is_filled(cell)]
        return self._all(name, contents, depth) if contents else zlib.crc32(name.encode())

    def _all(self, name: str, parts: Iterable[Any], depth: int) -> int:
        digest = zlib.crc32(name.encode())
        for part in parts:
            digest = zlib.crc32(self.of(part, depth - 1).to_bytes(4), digest)
        return digest


def _attributes(value: Any) -> list[Any]:
    slots = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]
    named = {name: getattr(value, name) for name in slots if name[:2] != "__" and _has(value, name)}
    return [part for item in {**named, **getattr(value, "__dict__", {})}.items() for part in item]


def _has(value: Any, name: str) -> bool:
    try:
        getattr(value, name)
    except AttributeError:
        return False
    return True


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  raises where it is empty
    except ValueError:
        return False
    return True
