"""Digests of the numbers in a value, to compare what two runs computed up to rounding."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from harness.core.rounding import MOST
from harness.core.run import Digest, NumericArray

CALLS = 400
"""The number of calls of each function that are recorded one by one; later ones are summed up."""

DEPTH = 5
"""The depth to which the parts of a value are digested."""

PARTS = 500
"""The number of parts of a value that are digested."""

ENDS = 32
"""The number of parts that are digested at either end of a long sequence."""

# Tuples, since `isinstance` is called a hundred thousand times in a test, and `A | B` is slow.
_SCALARS = (bool, int, float, complex, np.number)
_NUMBERS = (np.ndarray, np.generic, bool, int, float, complex)
_TEXTS, _ROWS = (str, bytes, slice), (list, tuple)
_NAMED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
_PLAIN = (*_NUMBERS, str, list, tuple, dict)

MARGIN = 256
"""How far two ways of computing a number may differ, in multiples of its rounding error."""


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
    """Return the digest by which two runs compare an array."""
    numbers = NumbersDigest()
    numbers.checksum = zlib.crc32(f"{array.dtype.str}{array.shape}".encode())
    numbers.add(array, 0.0, DEPTH)
    return numbers.digest


class NumbersDigest:
    """A digest of the numbers in a value and its parts, the same for equal values in any process.

    An array counts as what it broadcasts to: equal slices, and leading axes of length 1, change
    nothing; a row is not a column.
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
        if isinstance(value, _NUMBERS):
            array = np.asarray(value)
            if array.dtype.kind in "biufc":
                self._project(array, seed)
            elif array.dtype.kind == "O":
                self._each(array.ravel().tolist(), seed, depth)
        elif value is None:
            return
        elif isinstance(value, _TEXTS):
            self._constant(repr(value))
        elif isinstance(value, _NAMED):
            self._constant(getattr(value, "__name__", ""))
        elif depth and self.parts <= PARTS:
            self._container(value, seed, depth)

    def _container(self, value: Any, seed: float, depth: int) -> None:
        if isinstance(value, _ROWS) and _is_numeric(value):
            self._project(np.asarray(value), seed)
        elif isinstance(value, _ROWS):
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
        if array.nbytes <= _SMALL:
            projected = _projected_again(array.tobytes(), array.dtype, array.shape)
        else:
            projected = _projected(array)
        if projected.others:
            self.checksum = zlib.crc32(projected.others, self.checksum)
        self.rounding += projected.rounding
        self.projection += projected.projection * _factor(seed)


class _Projected(NamedTuple):
    """An array as a digest sees it."""

    projection: float
    rounding: float
    others: bytes
    """The numbers that are not finite, in their places; empty if all are finite."""


_SMALL = 1024
"""The size of the arrays, in bytes, whose projections are remembered: the same numbers occur again
and again, before and after a call, and as operands of other nodes."""


@lru_cache(maxsize=8192)
def _projected_again(data: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> _Projected:
    return _projected(np.frombuffer(data, dtype).reshape(shape))


def _projected(array: NumericArray) -> _Projected:
    kind = array.dtype.kind
    eps = float(np.finfo(array.dtype).eps) if kind in "fc" else 0.0
    if kind == "c":
        array = np.stack([array.real, array.imag])
    numbers = array.astype(np.float64)
    finite = np.isfinite(numbers)
    others = b""
    if not finite.all():
        others = np.where(finite, 0.0, numbers).tobytes()
        numbers = np.where(finite, numbers, 0.0)
    with np.errstate(all="ignore"):
        size = float(np.abs(numbers).max(initial=0.0))
        small = min(MARGIN * eps, MOST) * size
        # Errors of the entries have either sign: their sum grows as the root of their number.
        rounding = small * float(np.sqrt(np.square(numbers / (size or 1.0)).sum()))
        axes = [axis for axis in range(numbers.ndim) if not _is_repeated(numbers, axis, small)]
        numbers = numbers[tuple(np.s_[:] if i in axes else 0 for i in range(numbers.ndim))]
        for axis in reversed(axes):
            weights = _weights(numbers.shape[-1], place=array.ndim - axis - 1)
            numbers = numbers @ weights
        return _Projected(float(numbers), rounding, others)


@lru_cache(maxsize=4096)
def _factor(seed: float) -> float:
    return 2.0 + float(np.cos(seed))


@lru_cache(maxsize=256)
def _weights(length: int, place: int) -> NumericArray:
    """Return irregular numbers for an axis, the last of which has place 0; none is near zero."""
    places = np.arange(length)
    weights = (-1.0) ** places * (1 + 0.5 * np.cos((1 + 0.618 * place) * places))
    return np.asarray(weights - weights.mean() + 1 / length) if length else weights


def _is_repeated(numbers: NumericArray, axis: int, small: float) -> bool:
    """Whether all slices along an axis are equal, so that the array may have been broadcast."""
    if numbers.shape[axis] == 1:
        return True
    return numbers.size > 0 and float(np.ptp(numbers, axis=axis).max()) <= small


def _is_numeric(value: object) -> bool:
    """Whether a list holds only numbers, in rows of equal length, so that it is an array."""
    if not (isinstance(value, _ROWS) and value and len(value) <= PARTS):
        return isinstance(value, _SCALARS)
    lengths = {len(item) if isinstance(item, _ROWS) else 0 for item in value}
    return len(lengths) == 1 and all(map(_is_numeric, value))


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, _PLAIN)


@lru_cache(maxsize=4096)
def _seed(name: str) -> float:
    return float(zlib.crc32(name.encode()) % 997)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object that hold values; if there are arrays, no flags or counts.

    Sources of random numbers are left out, and what its class has in its slots only for weak
    references.
    """
    slots = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]
    items = ((name, getattr(value, name, _MISSING)) for name in slots if name[:2] != "__")
    named = {name: item for name, item in items if item is not _MISSING}
    every = {**named, **getattr(value, "__dict__", {})}
    has_arrays = any(isinstance(item, np.ndarray) for item in every.values())
    for name, item in every.items():
        if not isinstance(item, bool | str) and not (has_arrays and isinstance(item, int)):
            yield name, item


_MISSING = object()
