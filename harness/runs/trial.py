"""A trial: a probe on a library, in the process that runs both, and the probe's inputs.

Diagnostics measure with it. What is recorded of its one run is in `harness.runs.observer`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from types import CodeType
from typing import Any

import numpy as np

from harness.core.rounding import agree, resolution, rounding
from harness.core.run import (
    REAL,
    Array,
    NumericArray,
    Run,
    pack,
)
from harness.core.vocabulary import Loss
from harness.engines.library import Creations, Library
from harness.pages.probe import Leaf, Probe
from harness.runs.protocol import SEED


class ReplyCache:
    """What a library has computed for one probe, by its inputs.

    The losses of a probe share it: neither the output nor the gradient for a cotangent depends on
    the loss.
    """

    def __init__(self) -> None:
        self.stored: dict[_ReplyKey, dict[str, NumericArray]] = {}
        self.outputs: dict[_ReplyKey, NumericArray] = {}
        self.gradients: dict[_ReplyKey, tuple[NumericArray, dict[str, NumericArray | None]]] = {}


_ReplyKey = tuple[tuple[str, str, tuple[int, ...], bytes], ...]
"""Arrays by name: for each, its name, dtype, shape and data."""


class Trial:
    """A probe on a library, which diagnostics may run any number of times.

    `stored`, `output` and `gradients` call the library once for equal arguments, and return
    read-only copies. To check whether the library is deterministic, compare them with the run.
    """

    def __init__(self, library: Library, probe: Probe, cache: ReplyCache | None = None) -> None:
        self.library, self.probe, self._cache = library, probe, cache or ReplyCache()
        names: dict[str, Any] = {"__name__": "probes"}
        exec(compile_at(probe.source, probe.path, probe.line), names)  # noqa: S102  a probe is code
        self.function: Callable[..., Any] = names[probe.function]

    def leaves(self, values: Mapping[str, NumericArray]) -> dict[str, Any]:
        """Return new leaves that hold copies of `values`."""
        return {name: self.library.leaf(np.asarray(data)) for name, data in values.items()}

    def call(self, leaves: Mapping[str, Any], **options: Any) -> Any:
        """Return what the probe returns for these leaves; it creates others itself."""
        leaves = {leaf.name: leaves[leaf.name] for leaf in self.probe.leaves}
        seed = self.probe.seed
        arguments: tuple[Any, ...] = (self.library.module,) if self.probe.takes_lib else ()
        arguments += () if seed is None else (np.random.default_rng(seed),)
        return self.library.call(self.function, arguments, leaves, **options)

    def forward(self, values: Mapping[str, NumericArray]) -> tuple[dict[str, Any], Any]:
        """Return new leaves, and the probe's output for them.

        The values of leaves that the probe creates are those that they have when it ends. Raises
        NotHeld if one of these leaves is not created, or has another value then.
        """
        own = {leaf.name for leaf in self.probe.leaves}
        declared = {name: data for name, data in values.items() if name in own}
        held = {name: data for name, data in values.items() if name not in own}
        leaves = self.leaves(declared)
        if not held:
            return leaves, self.call(leaves)
        creations = self.creations(self.constants | held)
        with self.library.creating(creations):
            output = self.call(leaves)
        for name, data in held.items():
            leaf = creations.leaves.get(name)
            if leaf is None or not np.array_equal(self.library.value(leaf), data, equal_nan=True):
                raise NotHeld(name)
            leaves[name] = leaf
        return leaves, output

    @cached_property
    def constants(self) -> dict[str, NumericArray]:
        """The values of the tensors that the probe creates and that require no gradient.

        They are fixed too: what a program stores in one leaf may be computed from another's data.
        """
        creations, library = self.creations(), self.library
        with library.creating(creations):
            self.call(self.leaves(draw(self.probe)))
        return {
            name: np.array(library.value(leaf))
            for name, leaf in creations.leaves.items()
            if not library.requires_gradient(leaf)
        }

    def creations(self, values: Mapping[str, NumericArray] | None = None) -> Creations:
        """Return a recorder of the leaves that the probe creates, which fixes these values."""
        return Creations(self.probe.path, values)

    def measurable(self, run: Run) -> Run:
        """Return the run without created leaves, if the probe cannot be run with given values.

        It cannot if it changes these leaves after using them, or if the engine does not allow it.
        """
        own = {leaf.name for leaf in self.probe.leaves}
        if run.leaves.keys() <= own or run.output is None:
            return run
        try:
            again = self.output(run.values())
        except Exception:
            return run.only(own)
        output = run.output.numpy()
        eps = resolution(output, again)
        return run if agree(again, output, rounding(again.size, eps)) else run.only(own)

    def stored(self, values: Mapping[str, NumericArray]) -> dict[str, NumericArray]:
        """Return the data of new leaves that were made from `values`."""
        key, cache = _key_of(values), self._cache.stored
        if key not in cache:
            leaves = self.leaves(values)
            cache[key] = {name: _copy(self.library.value(leaf)) for name, leaf in leaves.items()}
        return cache[key]

    def output(self, values: Mapping[str, NumericArray]) -> NumericArray:
        """Return the value of the probe's output, without a backward pass."""
        key, cache = _key_of(values), self._cache.outputs
        if key not in cache:
            cache[key] = _copy(self.library.value(self.forward(values)[1]))
        return cache[key]

    def gradients(
        self, values: Mapping[str, NumericArray], cotangent: NumericArray
    ) -> tuple[NumericArray, dict[str, NumericArray | None]]:
        """Return the output for new leaves with these values, and their gradients."""
        key, cache = _key_of({**values, "": cotangent}), self._cache.gradients
        if key not in cache:
            leaves, output = self.forward(values)
            value = self.library.value(output)
            self.library.backward(output, np.array(cotangent, value.dtype))
            gradients = {name: self.library.gradient(leaf) for name, leaf in leaves.items()}
            cache[key] = (
                _copy(value),
                {name: None if g is None else _copy(g) for name, g in gradients.items()},
            )
        return cache[key]

    def precision(self, run: Run) -> float:
        """Return the coarsest machine epsilon of a run's leaves (passed and stored) and output."""
        leaves = run.values()
        output = [run.output.numpy()] if run.output else []
        return resolution(*leaves.values(), *self.stored(leaves).values(), *output)

    def steps(self, leaves: Mapping[str, Any], **options: Any) -> Iterator[dict[str, Array]]:
        """Return the snapshots of a probe of steps, one by one."""
        snapshots = self.call(leaves, **options)
        return (
            {name: pack_entry(name, self.library.value(t)) for name, t in part.items()}
            for part in snapshots
        )


class NotHeld(Exception):
    """A leaf that the probe creates does not have the value that it should have."""


_WORDS = "loss", "output"


def pack_entry(name: str, value: NumericArray) -> Array:
    """Return an entry of a log. Raises TypeError if it is complex: no diagnostic can order it."""
    array = pack(value)
    if array.dtype[1] not in REAL:
        raise TypeError(f"the {name} is complex" if name in _WORDS else f"`{name}` is complex")
    return array


def _key_of(arrays: Mapping[str, NumericArray]) -> _ReplyKey:
    return tuple(
        (name, array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()
    )


def _copy(array: NumericArray) -> NumericArray:
    """Return a read-only copy."""
    copy = np.array(array)
    copy.setflags(write=False)
    return copy


# ----- Inputs and source -----


def draw(probe: Probe) -> dict[str, NumericArray]:
    """Return the values of the leaves, which are the same on every engine and in every process.

    They are shared and read-only: an engine gets copies.
    """
    return {leaf.name: _values_of(probe.name, leaf) for leaf in probe.leaves}


def _values_of(probe: str, leaf: Leaf) -> NumericArray:
    if leaf.shape is None:
        return np.array(leaf.values, leaf.dtype)
    return _drawn(probe, leaf.name, leaf.shape, leaf.dtype)


@lru_cache(maxsize=4096)
def _drawn(probe: str, name: str, shape: tuple[int, ...], dtype: str) -> NumericArray:
    generator = _generator(f"{probe}/{name}")
    whole = np.dtype(dtype).kind == "i"
    drawn = generator.integers(-4, 5, shape) if whole else generator.standard_normal(shape)
    values = np.array(drawn, dtype)
    values.setflags(write=False)
    return values


@lru_cache(maxsize=4096)
def cotangent_for(probe: str, loss: Loss, shape: tuple[int, ...]) -> NumericArray:
    """Return the cotangent of an output of `shape` under a loss: ones, or fixed random numbers.

    It is shared and read-only, like the leaves.
    """
    if loss == "uniform":
        cotangent = np.ones(shape)
    else:
        cotangent = np.asarray(_generator(f"{probe}: cotangent").standard_normal(shape))
    cotangent.setflags(write=False)
    return cotangent


def _generator(label: str) -> np.random.Generator:
    return np.random.default_rng([SEED, zlib.crc32(label.encode())])


@lru_cache(maxsize=1024)
def compile_at(source: str, path: str, line: int) -> CodeType:
    """Compile code whose first line is at line `line` of the file `path`."""
    return compile("\n" * (line - 1) + source, path, "exec")


def line_within(source: str, path: str, line: int, error: BaseException) -> str:
    """Return the line of a text that was being executed when the exception passed through it.

    The text starts at `line` of the file `path`. The result is empty if no frame is in the text.
    """
    lines, line_text, traceback = source.splitlines(), "", error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == path:
            index = traceback.tb_lineno - line
            line_text = lines[index].strip() if 0 <= index < len(lines) else line_text
        traceback = traceback.tb_next
    return line_text
