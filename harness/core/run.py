"""A run: one execution of a probe on an engine, and everything observed in it.

Runs are sent between processes, so they are plain typed records that `msgspec` encodes and decodes;
nothing received is ever unpickled or evaluated. Arrays are sent only as `Array`.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Collection
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.core.message import Kind, Message, message, shortened, verbatim, visible
from harness.core.vocabulary import Lack, Loss, Phase

NumericArray = NDArray[Any]

NUMERIC = "biufc"
"""The kinds of arrays that can be sent: booleans and numbers, never objects or strings."""

REAL = "biuf"
"""The kinds of arrays that can be logged."""

_DTYPE = re.compile(rf"[<>|=][{NUMERIC}]\d{{1,2}}")
"""The dtypes that `pack` writes. NumPy accepts more, and raises SyntaxError for some strings."""

MOST_AXES = 64
"""NumPy's limit."""

Name = Annotated[str, msgspec.Meta(max_length=1000, pattern=r"^[^\x00-\x1f\x7f-\x9f]*\Z")]
"""A name that may come from an engine: it is displayed, so it must not control the terminal."""

_MANY = msgspec.Meta(max_length=100_000)
"""The limit on steps of a log or a walk: empty ones are cheap to send, but not to receive."""

MODULE_LOG = (Phase.TRAIN, Phase.EVAL, Phase.EVAL_AGAIN, Phase.EVAL_FIRST_ROW, Phase.TRAIN_AGAIN)
"""The snapshots in the log of a module probe, by the name of the layer's output."""

TRAINING_FLAGS = "state.training"
"""The name of the `training` flags in each of these snapshots."""

LONGEST_MESSAGE = 1000
"""Characters."""


def _make_readable(record: msgspec.Struct, *fields: str) -> None:
    """Escape unprintable characters in these fields of a record, and truncate long ones."""
    for field in fields:
        text = getattr(record, field)
        if text and not (text.isprintable() and len(text) <= LONGEST_MESSAGE):
            msgspec.structs.force_setattr(record, field, visible(text[:LONGEST_MESSAGE]))


class Array(msgspec.Struct, frozen=True):
    """A NumPy array of numbers, as it is sent."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def __post_init__(self) -> None:
        """Raise ValueError if the parts are inconsistent: a forged record is not an array."""
        if not _DTYPE.fullmatch(self.dtype) or any(n < 0 for n in self.shape):
            raise ValueError(f"an array of {self.dtype} with shape {self.shape} cannot be sent")
        size = np.dtype(self.dtype).itemsize
        if len(self.data) != size * math.prod(self.shape):
            raise ValueError(
                f"{len(self.data)} bytes do not make a {self.dtype} array {self.shape}"
            )
        # Also where another length is 0, and there are no bytes at all.
        if len(self.shape) > MOST_AXES or size * math.prod(filter(None, self.shape)) > sys.maxsize:
            raise ValueError(f"an array cannot have the shape {self.shape}")

    def numpy(self) -> NumericArray:
        """The array itself, read-only, with its dtype and shape."""
        return np.frombuffer(self.data, dtype=self.dtype).reshape(self.shape)


def pack(values: Any) -> Array:
    """Return anything that NumPy accepts as an array of numbers, ready to be sent.

    Raises TypeError, naming the type, if it holds anything but numbers.
    """
    array = np.asarray(values)
    if array.dtype.kind not in NUMERIC:
        raise TypeError(
            f"expected an array of numbers, got {type(values).__name__} ({array.dtype})"
        )
    return Array(array.dtype.str, array.shape, array.tobytes())


Raiser = Literal["engine", "statement", "call", "result", "adapter", "probe"]
"""Whose code raised an exception: Python or a library that the engine's code calls; a `raise` or
`assert` statement of the engine; the call of an engine's function, before any of its code ran;
breaklab's adapter, since a result of the engine holds no numbers, or for another reason; the
probe."""


class FailureOrigin(msgspec.Struct, frozen=True):
    """Where an exception was raised: see `harness.engines.calling`."""

    raiser: Raiser
    file: str = ""
    """The last of the engine's files that it passed through, below the root; "" for none."""
    line: int = 0
    function: str = ""
    """The function of that file."""
    statement: str = ""
    """What that function was executing, as one line of text, since a patch moves lines; of an
    `assert`, its condition."""
    in_backward: bool = False
    """Whether the engine's backward pass was running."""
    in_leaf: bool = False
    """Whether the engine was making a leaf."""
    accepted: bool = False
    """Whether the engine had accepted the work: an op, operands that it is written for (see
    `harness.engines.offers`); a backward pass, what is checked before its first loop."""
    lack: Lack | None = None
    """What is missing, if that is the cause."""
    missing: str = ""
    """Its name, if it has one: `numpy.float`, `cumsum`."""

    def __post_init__(self) -> None:
        """Make the texts safe to show, whatever process they came from."""
        _make_readable(self, "file", "function", "statement", "missing")


LIMITS = frozenset(
    {"TimeLimit", "ProcessorTimeLimit", "MemoryError", "ResultTooLarge", "ForgedResult"}
)
"""The types of failures that are about breaklab's limits: see `harness.runs.isolated`."""


class Failure(msgspec.Struct, frozen=True):
    """How a run ended early: an exception, a signal or a limit, turned into a value."""

    phase: Phase
    type: str
    message: str
    where: str = ""
    """The line of the probe that was being executed, if it is known."""
    repeatable: bool = True
    """Whether another run would fail in the same way; False if it depends on the machine."""
    step: int | None = None
    """The number of the step, for a failure within a training loop."""
    origin: FailureOrigin | None = None
    """Where it was raised, if it was an exception."""

    def __post_init__(self) -> None:
        """Make the texts safe to show, whatever process they came from."""
        _make_readable(self, "type", "message", "where")

    @property
    def sentence(self) -> Message:
        """What failed, and where; the texts of Python and of the user's code are verbatim."""
        phase = name_of_phase(self.phase, self.step)
        error, line, text = self.type, self.where, self.message
        if not text and not line:
            return message("{error} in {phase}", error=error, phase=phase)
        if not text:
            return message(Kind.FAILED_AT, error=error, phase=phase, line=line)
        if not line:
            return message(Kind.FAILED_SAYING, error=error, phase=phase, text=text)
        return message(Kind.FAILED_AT_SAYING, error=error, phase=phase, line=line, text=text)

    def __str__(self) -> str:
        """The sentence in English."""
        return str(self.sentence)


_PHASES = {
    Phase.IMPORT: message("the import"),
    Phase.PROBE: message("reading the probe"),
    Phase.LEAVES: message("the leaves"),
    Phase.FORWARD: message(Kind.FORWARD),
    Phase.BACKWARD: message(Kind.BACKWARD),
    Phase.LAYER: message("making the layer"),
    Phase.TEST: message("the test"),
    Phase.RUN: message("the run"),
    Phase.PROGRAM: message("the program"),
    Phase.SENDING: message("sending the result"),
    # For the doctor, which is in English only. Other phases are names in the log of a layer.
    Phase.CLASS: verbatim("the class"),
    Phase.TENSORS: verbatim("the tensors"),
    Phase.ACCUMULATION: verbatim("the accumulation"),
    Phase.UNBROADCASTING: verbatim("the un-broadcasting"),
}


def name_of_phase(phase: Phase, step: int | None = None) -> Message:
    """Return how a reader would name a phase, or the step of a training loop."""
    if step is not None:
        return message("step {number}", number=step)
    return _PHASES.get(phase) or verbatim(phase)


OUTPUT, COTANGENT = "the-output", "the-cotangent"
"""The arrays of a run that are not leaves; no leaf can have such a name."""

_ARRAYS = {OUTPUT: message(Kind.OUTPUT), COTANGENT: message("the cotangent")}


def own_name(name: str) -> Message:
    """Return how a reader would name an array of a run: a leaf, a gradient or one of these two."""
    return _ARRAYS.get(name) or array_name(name)


class Measured(msgspec.Struct, frozen=True):
    """What a diagnostic measured by running the engine under test again."""

    values: dict[str, Array] = {}
    numbers: dict[str, float] = {}
    problem: str | None = None
    """Why the diagnostic measured nothing; always in English, as it comes from a child."""
    failure: str | None = None
    """How the measurement failed; in English, like `problem`."""
    alarm: str | None = None
    """The alarm of a diagnostic that a catalogue brings, which judges in the child."""
    ours: bool = False
    """Whether it failed in the diagnostic's own code rather than in the engine or the probe."""
    repeatable: bool = True
    """As in `Failure`."""

    def __post_init__(self) -> None:
        """Make the texts safe to show, whatever process they came from."""
        _make_readable(self, "problem", "failure", "alarm")


class TraceStep(msgspec.Struct, frozen=True):
    """One node of the backward walk, as an engine that records its walk reports it."""

    index: int
    """Its place in the topological order: parents have smaller ones than their children."""
    op: Name
    """Empty for a leaf."""
    parents: tuple[int | None, ...]
    value: Array
    cotangent: Array
    handed: tuple[Array | None, ...]
    """The cotangents that its rule passed on, one per parent."""


class Digest(msgspec.Struct, frozen=True, array_like=True):
    """A digest of the numbers in a value, to compare two runs up to rounding."""

    checksum: int
    """The checksum of all else: the places of NaN and infinities, and constants."""
    projection: float = 0.0
    """The sum of the numbers, times fixed irregular weights."""
    rounding: float = 0.0
    """How far the projections of equal numbers may differ."""


class PartValue(msgspec.Struct, frozen=True, array_like=True):
    """A value of a changed expression: see `harness.engines.changed_parts`."""

    digest: Digest
    shape: tuple[int, ...] | None
    """The shape of an array; None for any other value."""
    numbers: list[float] = []
    """The first numbers of an array; one number if all are equal."""
    text: Name = ""
    """A value that is not an array, as Python shows it: `True`, `None`; empty if it is long."""
    dtype: Name = ""
    is_tensor: bool = False
    """Whether it is a tensor, which has a graph as well as numbers."""
    is_other: bool = False
    """Whether it is the same object that the other text names in its place."""


class Part(msgspec.Struct, frozen=True, array_like=True):
    """A changed expression, and the values that it had in a run."""

    text: Name
    other: Name
    """What takes its place in the other text; empty if nothing does."""
    values: Annotated[list[PartValue], _MANY]
    """The first values."""
    count: int
    """How often it was evaluated."""


INNER, VISIT, MORE = "~", "*", "+"
"""In the keys of a trail: the start of the name of a function that was called inside a backward
rule; the start of the op of a node that a walk visited; the number of all calls that are summed up.

A key is `NAME#NUMBER in`, `NAME#NUMBER out`, or `NAME#NUMBER idle` for a call that returns nothing
and writes nothing that is recorded."""


CREATED = re.compile(r"([^\W\d]\w*)\[(\d+)\](?:\.([\w.]+))?")
"""The names of leaves that a probe creates: see `harness.engines.library`."""

GRAD = ".grad"
"""The suffix of a leaf's name in the name of its gradient."""

ORDINALS = (
    message("first"),
    message("second"),
    message("third"),
    message("fourth"),
    message("fifth"),
    message("sixth"),
)


def leaf_name(name: str, suffix: str = "") -> Message:
    """Return the name of a leaf as reports show it: a created one has no name of its own."""
    match = CREATED.fullmatch(name)
    if match is None:
        return verbatim(f"{name}{suffix}")
    kind, number, part = match[1], int(match[2]), f"{match[3] or match[1]}{suffix}"
    if number >= len(ORDINALS):
        return message("the {part} of {layer} {number}", part=part, layer=kind, number=number + 1)
    if match[3]:
        return message(
            "the {ordinal} {layer}'s {part}", ordinal=ORDINALS[number], layer=kind, part=part
        )
    return message("the probe's {ordinal} {part}", ordinal=ORDINALS[number], part=part)


def gradient_name(name: str) -> Message:
    """Return how a reader would name the gradient of a leaf."""
    return leaf_name(name, GRAD)


def array_name(name: str) -> Message:
    """Return how a reader would name a leaf, or a gradient that ends in `GRAD`."""
    return gradient_name(name.removesuffix(GRAD)) if name.endswith(GRAD) else leaf_name(name)


class Run(msgspec.Struct, frozen=True):
    """One probe on one engine with one loss (`None` for probes that keep a log of steps)."""

    probe: str
    loss: Loss | None
    leaves: dict[Name, Array] = {}
    """Those that the probe names, then those that it creates: `Linear[0].weight`."""
    output: Array | None = None
    cotangent: Array | None = None
    """The gradient of the loss with respect to the output: ones (uniform) or fixed random numbers
    (weighted)."""
    gradients: dict[Name, Array | None] = {}
    log: Annotated[list[dict[Name, Array]], _MANY] = []
    """For probes of steps: one snapshot per step, and one of the state before the first."""
    leaf_log: Annotated[list[dict[Name, Array]], _MANY] = []
    """The leaves of a probe of steps that have a gradient, and the gradients, at each snapshot of
    the log and at the end."""
    large: Annotated[list[dict[Name, Digest]], _MANY] = []
    """The same for large leaves, in any probe; a single backward pass has one snapshot."""
    not_compared: int = 0
    """The number of created leaves whose gradients cannot be read from the engine."""
    mutated: dict[Name, Array] = {}
    """The leaves, and `cotangent`, that the run changed in place, with their final values."""
    shared: Annotated[list[tuple[Name, Name]], _MANY] = []
    """Which gradients share memory, and with what: `("a.grad", "b.grad")`."""
    generator_moved: bool = False
    """Whether numbers were drawn from NumPy's global generator."""
    trace: Annotated[list[TraceStep], _MANY] = []
    """The backward walk, if it was requested and the engine can record it."""
    failure: Failure | None = None
    reached: list[int] = []
    """The numbers of the patch's sites that were executed. If there are none and no failure,
    nothing else is recorded: the run equals the unpatched engine's."""
    trail: dict[str, Digest] = {}
    """Digests of what the functions around the sites received and returned: see
    `harness.runs.recorder`."""
    parts: dict[Name, Part] = {}
    """The expressions that the patch changes: see `harness.engines.changed_parts`. The key is
    `SITE.NUMBER`; that of what only one text has, a test or an operand, is `SITE.NUMBER.VALUE`,
    with the value with which both texts do the same."""
    called: list[str] | None = None
    """The engine's functions that the import or the run called, if requested and known: see
    `harness.runs.recorder`."""
    measured: dict[str, Measured] = {}
    swapped: bool = False
    """Whether the engine was patched by replacing the code of its functions, and not by loading
    the patched text."""
    other_files: bool = False
    """Whether the run opened files that are not in its cache key: see
    `harness.runs.observer`."""
    seconds: float = 0.0

    def values(self) -> dict[str, NumericArray]:
        """Return the leaves as NumPy arrays, by name."""
        return {name: leaf.numpy() for name, leaf in self.leaves.items()}

    def only(self, names: Collection[str]) -> Run:
        """Return the run with only these leaves."""
        return msgspec.structs.replace(
            self,
            leaves={name: leaf for name, leaf in self.leaves.items() if name in names},
            gradients={name: g for name, g in self.gradients.items() if name in names},
        )

    @property
    def logged(self) -> list[dict[str, Array]]:
        """The log, with the leaves and their gradients at each step, and at the end.

        If an entry and a leaf have the same name, it has the entry.
        """
        extra: list[dict[str, Array]] = [{}] if len(self.leaf_log) > len(self.log) else []
        return [
            (self.leaf_log[step] if step < len(self.leaf_log) else {}) | entry
            for step, entry in enumerate([*self.log, *extra])
        ]

    @property
    def losses(self) -> list[float]:
        """The losses in the log that are single numbers, in order."""
        logged = (step["loss"].numpy() for step in self.log if "loss" in step)
        return [float(loss.item()) for loss in logged if loss.size == 1]

    @property
    def repeatable(self) -> bool:
        """Whether another run would give the same result, so that this one may be cached."""
        results = [self.failure, *self.measured.values()]
        return not self.other_files and all(result.repeatable for result in results if result)


def failure_of(
    phase: Phase,
    error: BaseException,
    where: str = "",
    step: int | None = None,
    origin: FailureOrigin | None = None,
) -> Failure:
    """Return an exception as a failure; a MemoryError is not repeatable."""
    kind = type(error).__name__
    return Failure(phase, kind, message_of(error), where, is_repeatable(error), step, origin)


def is_repeatable(error: BaseException) -> bool:
    """Whether the exception depends only on the program, not on the free memory."""
    return not isinstance(error, MemoryError)


def message_of(error: BaseException) -> str:
    """Return the exception's text on one line, at most 300 characters; its `__str__` may fail."""
    try:
        text = visible(" ".join(str(error)[:LONGEST_MESSAGE].split()))
    except BaseException:
        return "(its message cannot be printed)"
    return shortened(text, 300)
