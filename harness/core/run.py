"""A run: one execution of a probe on an engine, and everything observed in it.

Runs cross a process border, so they are plain typed records that `msgspec` encodes and decodes;
nothing that arrives is ever unpickled or evaluated. `Array` is the only way for numbers to travel.
"""

from __future__ import annotations

import math
import re
import sys
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.core.vocabulary import Loss, visible

NumericArray = NDArray[Any]

_KINDS = "biufc"
"""Array kinds that may travel: booleans and numbers. Never objects, strings or records."""

_DTYPE = re.compile(rf"[<>|=][{_KINDS}]\d{{1,2}}")
"""The dtypes that `pack` writes. NumPy reads more, `(2,)f8` and `f8,f8`, and `,` as bad syntax."""

MOST_AXES = 64
"""Of an array in NumPy."""

Name = Annotated[str, msgspec.Meta(max_length=1000, pattern=r"^[^\x00-\x1f\x7f-\x9f]*\Z")]
"""A name that an engine may have given: it will be shown, and must not control a terminal."""

_MANY = msgspec.Meta(max_length=100_000)
"""Steps of a log or a walk; empty ones would cost little to send and much to receive."""

LONGEST_MESSAGE = 1000
"""Characters."""


def _as_read(record: msgspec.Struct, *fields: str) -> None:
    """Make these texts of a record visible, and no longer than anybody reads."""
    for field in fields:
        said = getattr(record, field)
        if said and not (said.isprintable() and len(said) <= LONGEST_MESSAGE):
            msgspec.structs.force_setattr(record, field, visible(said[:LONGEST_MESSAGE]))


class Array(msgspec.Struct, frozen=True):
    """A NumPy array of numbers, as it travels."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def __post_init__(self) -> None:
        """Refuse what does not add up, so that a forged record cannot become an array."""
        if not _DTYPE.fullmatch(self.dtype) or any(n < 0 for n in self.shape):
            raise ValueError(f"an array of {self.dtype} with shape {self.shape} cannot travel")
        size = np.dtype(self.dtype).itemsize
        if len(self.data) != size * math.prod(self.shape):
            raise ValueError(f"{len(self.data)} bytes are no {self.dtype} array {self.shape}")
        # Also where another length is 0, and there are no bytes at all.
        if len(self.shape) > MOST_AXES or size * math.prod(filter(None, self.shape)) > sys.maxsize:
            raise ValueError(f"no array has the shape {self.shape}")

    def numpy(self) -> NumericArray:
        """The array itself, read-only, with its dtype and shape."""
        return np.frombuffer(self.data, dtype=self.dtype).reshape(self.shape)


def pack(values: Any) -> Array:
    """Make anything that NumPy takes for an array of numbers ready to travel.

    Raises TypeError where it holds anything but numbers, and says what it holds.
    """
    array = np.asarray(values)
    if array.dtype.kind not in _KINDS:
        raise TypeError(
            f"expected an array of numbers, got {type(values).__name__} ({array.dtype})"
        )
    return Array(array.dtype.str, array.shape, array.tobytes())


class Failure(msgspec.Struct, frozen=True):
    """How a run ended early: an exception, a signal or a limit, turned into a value."""

    phase: str
    type: str
    message: str
    where: str = ""
    """The line of the probe that was being executed, where that is known."""
    repeatable: bool = True
    """Whether another run would fail in the same way; False where it depends on the machine."""

    def __post_init__(self) -> None:
        """Whoever wrote the message: it can be shown as it is."""
        _as_read(self, "phase", "type", "message", "where")

    def __str__(self) -> str:
        """One sentence."""
        at = f", at `{self.where}`" if self.where else ""
        message = f": {self.message}" if self.message else ""
        return f"{self.type} in {self.phase}{at}{message}"


class Measured(msgspec.Struct, frozen=True):
    """What a diagnostic measured by running the engine under test again."""

    values: dict[str, Array] = {}
    numbers: dict[str, float] = {}
    problem: str | None = None
    """Why nothing was measured, where the diagnostic declined."""
    failure: str | None = None
    """How the engine failed while it was being measured."""
    repeatable: bool = True
    """As in `Failure`."""

    def __post_init__(self) -> None:
        """Whoever wrote them: they can be shown as they are."""
        _as_read(self, "problem", "failure")


class Measurement(msgspec.Struct, frozen=True):
    """What to measure in the child, by name: it runs the engine under test again."""

    name: str
    """The key of its result in `Run.measured`."""
    function: str
    """`module:function`, which takes the trial and its run and returns a `Measured`."""
    kinds: tuple[str, ...] = ("gradient",)
    """The kinds of probes on which it is made."""


class TraceStep(msgspec.Struct, frozen=True):
    """One node of the backward walk, as an engine that records its walk tells it."""

    index: int
    """Its place in the topological order: parents have smaller ones than their children."""
    op: Name
    """Empty for a leaf."""
    parents: tuple[int | None, ...]
    value: Array
    cotangent: Array
    handed: tuple[Array | None, ...]
    """What its rule handed on, one per parent."""


class Run(msgspec.Struct, frozen=True):
    """One probe on one engine with one loss (`None` for probes that keep a log of steps)."""

    probe: str
    loss: Loss | None
    leaves: dict[Name, Array] = {}
    output: Array | None = None
    cotangent: Array | None = None
    """What the loss hands to the output: ones (uniform) or fixed random numbers (weighted)."""
    gradients: dict[Name, Array | None] = {}
    log: Annotated[list[dict[Name, Array]], _MANY] = []
    """For probes of steps: one snapshot a step, the state before the first step included."""
    mutated: dict[Name, Array] = {}
    """Leaves, and `cotangent`, whose memory the run changed: what they hold after it."""
    shared: Annotated[list[Name], _MANY] = []
    """Which gradients share memory, with what: `a.grad and b.grad`."""
    generator_moved: bool = False
    """Numbers were drawn from NumPy's global generator."""
    trace: Annotated[list[TraceStep], _MANY] = []
    """The backward walk, where it was asked for and the engine can tell."""
    failure: Failure | None = None
    reached: list[int] = []
    """The numbers of the patch's sites that were executed. Where there are none, and no failure,
    nothing else is recorded: it is the unpatched engine's own run."""
    trail: dict[str, int] = {}
    """Digests of all that the sites evaluated to, by site and name: see `harness.runs.recorder`."""
    called: list[str] | None = None
    """The engine's functions that the import or the run called, where that was asked for and is
    known: see `harness.runs.coverage`."""
    measured: dict[str, Measured] = {}
    seconds: float = 0.0

    @property
    def repeatable(self) -> bool:
        """Whether another run would show the same, so that this one may be cached."""
        results = [self.failure, *self.measured.values()]
        return all(result.repeatable for result in results if result)


def failure_of(phase: str, error: BaseException, where: str = "") -> Failure:
    """Return the failure that an exception is; one for want of memory is not repeatable."""
    return Failure(phase, type(error).__name__, message_of(error), where, is_repeatable(error))


def is_repeatable(error: BaseException) -> bool:
    """Whether the exception depends on the program only, and not on the memory that is free."""
    return not isinstance(error, MemoryError)


def message_of(error: BaseException) -> str:
    """The exception's own words on one line, bounded; an exception may fail even to say them."""
    try:
        words = visible(" ".join(str(error)[:LONGEST_MESSAGE].split()))
    except BaseException:
        return "(its message cannot be printed)"
    return words if len(words) <= 300 else words[:299] + "…"
