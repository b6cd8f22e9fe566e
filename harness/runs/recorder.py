"""The trail of a run: the numbers that each call of a changed function received and returned.

A fault has *infected* a run if a changed function, given the same numbers as in the unpatched
engine, returns or writes other ones (see `harness.answer_key.stage`). Only numbers count: a list
and a tuple, an int and an equal float, a graph with another node are the same. Both engines are
compiled with calls of the recorder around the bodies of these functions (see
`harness.engines.boundary`), so nothing is evaluated twice.

If the engine records its backward walks, `harness.answer_key.visits` adds what each node received
and passed on to operands that need it. Then calls inside a backward rule, which are marked as
`INNER`, do not count: a rule may also return a number that nobody uses.
"""

from __future__ import annotations

import builtins
import contextlib
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from harness.core.run import INNER, MORE, Digest, NumericArray
from harness.core.site import HOOKS, Hooks
from harness.engines.boundary import INSIDE
from harness.engines.loader import file_of

DEPTH = 5
"""The depth to which the parts of a value are digested."""

PARTS = 500
"""The number of parts of a value that are digested."""

ENDS = 32
"""The number of parts that are digested at either end of a long sequence."""

CALLS = 400
"""The number of calls of each function that are recorded one by one; later ones are summed up."""

FEW_CALLS = 50
"""The same if many tests are recorded."""

BUDGET = 200_000
"""The number of parts that are digested in a run. Runs that are equal up to there reach it at
the same place; after it, calls are only counted."""

MARGIN = 256
"""How far two ways of computing a number may differ, in multiples of its rounding error."""


class Recorder:
    """Records which sites are executed since the last `clear`, and the calls around them."""

    def __init__(self, calls: int = CALLS) -> None:
        self.most = calls
        self.executed: set[int] = set()
        self.trail: dict[str, Digest] = {}
        self.counts: Counter[str] = Counter()
        self.calls: list[_Call] = []
        self.digested = 0
        self.paused = False

    def install(self, hooks: Hooks = HOOKS) -> None:
        """Define the builtins that instrumented code calls, for each hook that records anything."""
        setattr(builtins, HOOKS.marker, self.mark)
        if hooks.call:
            setattr(builtins, HOOKS.call, self.call)
            setattr(builtins, HOOKS.value, self.value)
            setattr(builtins, HOOKS.locals, locals)

    def clear(self) -> None:
        """Discard everything, and continue recording."""
        self.paused = False
        self.executed.clear()
        self.trail.clear()
        self.counts.clear()
        self.calls.clear()
        self.digested = 0

    def mark(self, site: int) -> bool:
        """Record that a site is about to be executed."""
        if not self.paused:
            self.executed.add(site)
        return True

    def call(self, name: str, variables: Mapping[str, Any]) -> _Call:
        """Begin a call with these arguments and variables of enclosing functions."""
        return _Call(self, name, {} if self.paused else dict(variables))

    def value(self, call: _Call | None, value: Any) -> Any:
        """Record that the innermost call returns `value`; return the value.

        A lambda passes its own `call`, which ends here.
        """
        if call is not None:
            call.returned = value
            self.end(call)
        elif self.calls:
            self.calls[-1].returned = value
        return value

    def begin(self, call: _Call) -> str | None:
        """Record what a call receives; return its key, or None if it is not recorded."""
        if self.paused:
            return None
        name = INNER + call.name if INSIDE in call.name or _is_in_rule() else call.name
        number, self.counts[name] = self.counts[name], self.counts[name] + 1
        key = f"{name}#{number if number < self.most else MORE}"
        call.before = self.note(f"{key} in", {"": call.given}, number, exact=True)
        return key

    def end(self, call: _Call) -> None:
        """Record what a call returns, and what it has written."""
        if call.key is None or self.paused:
            return
        after = self.note(f"{call.key} out", {"": call.given, "returned": call.returned})
        if call.before and after.projection == call.before.projection:
            self.trail[f"{call.key} idle"] = Digest(0)

    def note(self, key: str, value: Any, number: int = 0, *, exact: bool = False) -> Digest:
        """Add the numbers in a value; with `exact`, other constants count as well."""
        numbers = Numbers(exact=exact)
        if self.digested < BUDGET:
            # An attribute may raise, or the stack may be exhausted.
            with contextlib.suppress(Exception):
                numbers.add(value, 0.0 if number < self.most else float(number % 1009), DEPTH)
            self.digested += numbers.parts
        else:
            numbers.checksum = 1
        add_digest(self.trail, key, numbers.digest)
        return numbers.digest


class _Call:
    """A call of an instrumented function, as a context."""

    def __init__(self, recorder: Recorder, name: str, given: Mapping[str, Any]) -> None:
        self.recorder, self.name, self.given = recorder, name, given
        self.returned: Any = None
        self.before: Digest | None = None
        self.key = recorder.begin(self)

    def __enter__(self) -> None:
        self.recorder.calls.append(self)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        calls = self.recorder.calls
        if calls and calls[-1] is self:
            calls.pop()
        if kind is None:
            self.recorder.end(self)


def _is_in_rule() -> bool:
    """Whether a function that another function of the engine defines is being called."""
    frame = sys._getframe(3)
    while frame is not None:
        code = frame.f_code
        is_inner = "<locals>" in code.co_qualname and not code.co_name.startswith("<")
        if is_inner and code.co_name not in _WALKING and file_of(frame):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


_WALKING = ("instrumented_visit", "multiply")


def add_digest(trail: dict[str, Digest], key: str, digest: Digest) -> None:
    """Store a digest, or add it to the one that is stored."""
    before = trail.get(key)
    if before is not None:
        digest = Digest(
            zlib.crc32(digest.checksum.to_bytes(4), before.checksum),
            before.projection + digest.projection,
            before.rounding + digest.rounding,
        )
    trail[key] = digest


def digest_of(array: np.ndarray[Any, Any]) -> Digest:
    """Return the digest of an array."""
    numbers = Numbers()
    numbers.checksum = zlib.crc32(f"{array.dtype.str}{array.shape}".encode())
    numbers.add(array, 0.0, DEPTH)
    return numbers.digest


class Numbers:
    """A digest of the numbers in a value and its parts, the same for equal values in any process.

    Arrays that broadcast to the same array are equal: axes of length 1 and equal slices do not
    matter.
    """

    def __init__(self, *, exact: bool = False) -> None:
        self.path: list[type] = []
        self.parts = self.checksum = 0
        self.projection = self.rounding = 0.0
        self.exact = exact

    @property
    def digest(self) -> Digest:
        """The digest of everything that was added."""
        return Digest(self.checksum, self.projection, self.rounding)

    def add(self, value: Any, seed: float, depth: int) -> None:
        """Add a value at the place that `seed` stands for."""
        self.parts += 1
        if isinstance(value, np.ndarray | np.generic | bool | int | float | complex):
            array = np.asarray(value)
            if array.dtype.kind in "biufc":
                self._project(array, seed)
            elif array.dtype.kind == "O":
                self._each(array.ravel().tolist(), seed, depth)
        elif value is None:
            return
        elif isinstance(value, str | bytes | slice):
            self._constant(repr(value))
        elif isinstance(value, type | ModuleType | FunctionType | BuiltinFunctionType | MethodType):
            self._constant(getattr(value, "__name__", ""))
        elif depth and self.parts <= PARTS:
            self._container(value, seed, depth)

    def _container(self, value: Any, seed: float, depth: int) -> None:
        if isinstance(value, list | tuple) and _is_numeric(value):
            self._project(np.asarray(value), seed)
        elif isinstance(value, list | tuple):
            ends = value if len(value) <= 2 * ENDS else [*value[:ENDS], *value[-ENDS:]]
            self._each(ends, seed, depth)
        elif isinstance(value, set | frozenset):
            for item in islice(value, 2 * ENDS):
                self.add(item, seed + 1, depth - 1)
        elif isinstance(value, dict):
            for name, item in islice(value.items(), 2 * ENDS):
                place = _seed(name) if isinstance(name, str) else 1.0
                self.add(item, seed + place, depth - 1)
        elif type(value) not in self.path:  # a node, but not the nodes that it was computed from
            self.path.append(type(value))
            for name, item in _attributes(value):
                self.add(item, seed + _seed(name), depth - 1)
            self.path.pop()

    def _each(self, items: Iterable[Any], seed: float, depth: int) -> None:
        """Add items; objects count in any order, since a list of nodes is a set of references."""
        for i, item in enumerate(items, start=1):
            self.add(item, seed + (17.0 * i if _is_plain(item) else 1.0), depth - 1)

    def _constant(self, text: str) -> None:
        if self.exact:
            self.checksum = zlib.crc32(text.encode(), self.checksum)

    def _project(self, array: NumericArray, seed: float) -> None:
        """Add the finite numbers to the projection, the others and their places to the checksum."""
        kind = array.dtype.kind
        eps = float(np.finfo(array.dtype).eps) if kind in "fc" else 0.0
        if kind == "c":
            array = np.stack([array.real, array.imag])
        numbers = array.astype(np.float64)
        finite = np.isfinite(numbers)
        if not finite.all():
            self.checksum = zlib.crc32(np.where(finite, 0.0, numbers).tobytes(), self.checksum)
            numbers = np.where(finite, numbers, 0.0)
        with np.errstate(all="ignore"):
            self.rounding += MARGIN * eps * float(np.abs(numbers).sum())
            small = MARGIN * eps * float(np.abs(numbers).max(initial=0.0))
            axes = [axis for axis in range(numbers.ndim) if not _is_repeated(numbers, axis, small)]
            numbers = numbers[tuple(np.s_[:] if i in axes else 0 for i in range(numbers.ndim))]
            for place in range(numbers.ndim):  # the last axis first
                weights = np.cos((1 + 0.618 * place) * np.arange(numbers.shape[-1]))
                numbers = numbers @ (weights - weights.mean() + 1 / weights.size)
            self.projection += float(numbers) * (2.0 + float(np.cos(seed)))


def _is_repeated(numbers: NumericArray, axis: int, small: float) -> bool:
    """Whether all slices along an axis are equal, so that the array may have been broadcast."""
    if numbers.shape[axis] == 1:
        return True
    return numbers.size > 0 and float(np.ptp(numbers, axis=axis).max()) <= small


def _is_numeric(value: object) -> bool:
    """Whether a list holds only numbers, in rows of equal length, so that it is an array."""
    if not (isinstance(value, list | tuple) and value and len(value) <= PARTS):
        return isinstance(value, bool | int | float | complex | np.number)
    lengths = {len(item) if isinstance(item, list | tuple) else 0 for item in value}
    return len(lengths) == 1 and all(map(_is_numeric, value))


def _is_plain(value: object) -> bool:
    numbers = np.ndarray | np.generic | bool | int | float | complex
    return value is None or isinstance(value, numbers | str | list | tuple | dict)


def _seed(name: str) -> float:
    return float(zlib.crc32(name.encode()) % 997)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object that hold values; if there are arrays, no flags or counts.

    Sources of random numbers are left out, and what its class has in its slots only for weak
    references.
    """
    slots = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]
    named = {name: getattr(value, name) for name in slots if name[:2] != "__" and _has(value, name)}
    every = {**named, **getattr(value, "__dict__", {})}
    has_arrays = any(isinstance(item, np.ndarray) for item in every.values())
    for name, item in every.items():
        if not isinstance(item, bool | str) and not (has_arrays and isinstance(item, int)):
            yield name, item


def _has(value: Any, name: str) -> bool:
    try:
        getattr(value, name)
    except AttributeError:
        return False
    return True
