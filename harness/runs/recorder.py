"""The trail of a run: digests of the values at the patch's sites, in the order of execution.

Floating-point numbers are compared up to rounding, everything else exactly.

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

from harness.core.run import NOTHING, Digest
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

MARGIN = 256
"""How far two ways of computing a number may differ, in multiples of its rounding error."""


class Recorder:
    """Records what the sites do since the last `clear`."""

    def __init__(self) -> None:
        self.executed: set[int] = set()
        self.trail: dict[str, Digest] = {}
        self.numbers: dict[str, int] = {}
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
        self.numbers.clear()
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
        self.trail[key] = Digest(self.trail.get(key, NOTHING).checksum + 1)

    def _note(self, key: str, value: Any) -> None:
        checksum, digester = 0, _Digester(self.numbers.get(key, 0))
        if self.digested < BUDGET:
            # An attribute may raise, or the stack may be exhausted.
            with contextlib.suppress(Exception):
                checksum = digester.of(value, DEPTH)
            self.digested += digester.parts
        before = self.trail.get(key, NOTHING)
        self.numbers[key] = digester.numbers
        self.trail[key] = Digest(
            zlib.crc32(checksum.to_bytes(4), before.checksum),
            before.projection + digester.projection,
            before.rounding + digester.rounding,
        )


def digest_of(array: np.ndarray[Any, Any]) -> Digest:
    """Return the digest of an array."""
    digester = _Digester()
    checksum = digester.of(array, DEPTH)
    return Digest(checksum, digester.projection, digester.rounding)


class _Digester:
    """Computes a digest of a value and its parts, the same for equal values in any process."""

    def __init__(self, numbers: int = 0) -> None:
        self.visited: set[int] = set()
        self.parts = 0
        self.projection = self.rounding = 0.0
        self.numbers = numbers
        """How many floating-point numbers preceded it at the same place."""

    def of(self, value: Any, depth: int) -> int:
        """Return the checksum; parts below `depth`, and repeated ones, count by their type only."""
        self.parts += 1
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            if array.dtype.kind == "O":
                return self._all("array", array.ravel().tolist(), depth)
            checksum = zlib.crc32(f"{array.dtype.str}{array.shape}".encode())
            if array.dtype.kind in "fc":
                return zlib.crc32(self._project(array), checksum)
            return zlib.crc32(array.tobytes(), checksum)
        if isinstance(value, float | complex):
            return zlib.crc32(self._project(np.asarray(value)), zlib.crc32(b"number"))
        if value is None or isinstance(value, bool | int | str | bytes | slice):
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
            return zlib.crc32(str(sorted(self._exact(item, depth - 1) for item in value)).encode())
        if isinstance(value, dict):
            items = list(islice(value.items(), 2 * ENDS))
            return self._all(name, [len(value), *(p for item in items for p in item)], depth)
        if isinstance(value, np.random.Generator):
            return self._all(name, [value.bit_generator.state], depth)
        return self._all(name, _attributes(value), depth)

    def _exact(self, value: Any, depth: int) -> int:
        """Return a checksum that includes the numbers, since items of a set have no order."""
        digester = _Digester()
        checksum = digester.of(value, depth)
        self.parts += digester.parts
        return zlib.crc32(repr(digester.projection).encode(), checksum)

    def _project(self, array: np.ndarray[Any, Any]) -> bytes:
        """Add the finite numbers to the projection, and return the others and their places."""
        eps = float(np.finfo(array.dtype).eps)
        flat = np.atleast_1d(array).ravel().view(array.real.dtype).astype(np.float64)
        finite = np.isfinite(flat)
        weights = np.cos(np.arange(self.numbers + 1, self.numbers + flat.size + 1))
        self.numbers += flat.size
        numbers = np.where(finite, flat, 0.0)
        with np.errstate(all="ignore"):
            self.projection += float(weights @ numbers)
            self.rounding += MARGIN * eps * float(np.abs(numbers).sum())
        return b"" if finite.all() else np.where(finite, 0.0, flat).tobytes()

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
