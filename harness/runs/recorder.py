"""The trail of a run: digests of what the patch's sites evaluated to, in the order of execution.

A fault that is reached has *infected* the program if, at a patched place, something evaluates to
something else than at the same place of the unpatched engine. Both engines are compiled with calls
to the recorder at these places (see `harness.patch.reach`), so that the values are taken in the
patched function's own frame, a closure's included, and nothing is evaluated twice.

Two trails are compared name by name. A name that only one side knows is a variable that the patch
itself brings in or takes away: what it holds shows in the others, or nowhere.
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

from harness.patch.reach import HOOKS, Hooks

DEPTH = 5
"""How far below a value its parts count."""

PARTS = 500
"""How many parts of a value count: an engine's whole graph may hang on a node."""

ENDS = 32
"""How many parts count at either end of a long sequence."""

BUDGET = 100_000
"""How many parts are looked at in a run. Two runs that have been alike use it up at the same place;
what they do from there on counts by how often it is done only."""


class Recorder:
    """What the sites did since the last `clear`."""

    def __init__(self) -> None:
        self.executed: set[int] = set()
        self.trail: dict[str, int] = {}
        self.looked_at = 0
        self.paused = False

    def install(self, hooks: Hooks = HOOKS) -> None:
        """Give instrumented code its builtins; without those for values, only sites are marked."""
        for name, function in (
            (HOOKS.marker, self.mark if hooks.value else self.mark_only),
            (HOOKS.value, self.value),
            (HOOKS.frame, self.frame),
            (HOOKS.locals, locals),
        ):
            setattr(builtins, name, function)

    def clear(self) -> None:
        """Forget everything, and go on recording."""
        self.paused = False
        self.executed.clear()
        self.trail.clear()
        self.looked_at = 0

    def mark(self, site: int) -> bool:
        """A site is about to be executed."""
        if self.paused:
            return True
        self.executed.add(site)
        self._count(f"{site} executed")
        return True

    def mark_only(self, site: int) -> bool:
        """As `mark`, and nothing else will be told about the site."""
        if not self.paused:
            self.executed.add(site)
        return True

    def value(self, site: int, value: Any) -> Any:
        """A site evaluated to `value`, or returns it, which is handed on."""
        if not self.paused:
            self._note(f"{site} value", value)
        return value

    def frame(self, site: int, variables: Mapping[str, Any], names: Iterable[str]) -> None:
        """A site is done, and its frame holds `variables`, of which `names` occur in the patch."""
        if self.paused:
            return
        self._count(f"{site} done")
        for name in names:
            if name in variables:
                self._note(f"{site}.{name}", variables[name])

    def _count(self, key: str) -> None:
        self.trail[key] = self.trail.get(key, 0) + 1

    def _note(self, key: str, value: Any) -> None:
        digest, look = 0, _Digest()
        if self.looked_at < BUDGET:
            # An object may refuse to be looked at, or the stack may be at its end.
            with contextlib.suppress(Exception):
                digest = look.of(value, DEPTH)
            self.looked_at += look.parts
        self.trail[key] = zlib.crc32(digest.to_bytes(4), self.trail.get(key, 0))


class _Digest:
    """A checksum of a value and its parts: the same for equal values in any process."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.parts = 0

    def of(self, value: Any, depth: int) -> int:
        """The checksum; parts below `depth`, and those met before, count by their type only."""
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
        if depth == 0 or id(value) in self.seen or self.parts > PARTS:
            return zlib.crc32(name.encode())
        self.seen.add(id(value))
        if isinstance(value, list | tuple):
            ends = value if len(value) <= 2 * ENDS else (len(value), *value[:ENDS], *value[-ENDS:])
            return self._all(name, ends, depth)
        if isinstance(value, set | frozenset) and len(value) > 2 * ENDS:
            return self._all(name, [len(value)], depth)
        if isinstance(value, set | frozenset):
            return zlib.crc32(str(sorted(self.of(each, depth - 1) for each in value)).encode())
        if isinstance(value, dict):
            items = list(islice(value.items(), 2 * ENDS))
            return self._all(name, [len(value), *(p for item in items for p in item)], depth)
        if isinstance(value, np.random.Generator):
            return self._all(name, [value.bit_generator.state], depth)
        return self._all(name, _attributes(value), depth)

    def _function(self, value: Any, depth: int) -> int:
        """Functions are known by name, closures by what they hold as well."""
        name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
        cells = getattr(value, "__closure__", None) or () if depth else ()
        held = [cell.cell_contents for cell in cells if _is_filled(cell)]
        return self._all(name, held, depth) if held else zlib.crc32(name.encode())

    def _all(self, name: str, parts: Iterable[Any], depth: int) -> int:
        digest = zlib.crc32(name.encode())
        for part in parts:
            digest = zlib.crc32(self.of(part, depth - 1).to_bytes(4), digest)
        return digest


def _attributes(value: Any) -> list[Any]:
    slots = [name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())]
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
