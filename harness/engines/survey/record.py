"""What goes into a survey and what comes out of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.core.run import Failure, Name
from harness.engines.engine import Dialect
from harness.sandbox.limits import Limits

Step = Literal["the import", "the class", "the tensors", "the accumulation", "the un-broadcasting"]

STEPS: tuple[Step, ...] = (
    "the import",
    "the class",
    "the tensors",
    "the accumulation",
    "the un-broadcasting",
)


TRYING = "harness tries:"
"""What is printed before each attempt: whoever waits in vain for the end knows what it was."""


class Survey(msgspec.Struct, frozen=True, tag="survey"):
    """All that a child needs to know to try an engine."""

    dialect: Dialect
    """What is said about it; an empty expression has to be found out."""
    name: str | None
    """The class or function that was named."""
    root: str
    sources: dict[str, str]
    limits: Limits = Limits(seconds=30.0, cpu_seconds=20)


class Reducer(msgspec.Struct, frozen=True):
    """A function of the engine that sums a gradient down to the shape of an operand."""

    module: Name
    name: Name
    """Qualified: `Tensor.unbroadcast`."""
    file: Name
    line: int
    callers: dict[Name, list[Name]] = {}
    """By op: the functions that called it in a backward pass."""
    flaws: list[Name] = []
    """What it gets wrong, each with a witness."""


class Surveyed(msgspec.Struct, frozen=True):
    """What a step found; the last frame of a step that failed says so."""

    step: Step
    dialect: Dialect
    name: Name | None = None
    failure: Failure | None = None
    tried: list[Name] = []
    """What did not work, where nothing did."""
    before: Name = ""
    """A leaf's gradient before the first walk: none, zeros, number."""
    second: Name = ""
    """What a second walk does to it: in place, rebound, replaced; or it is refused."""
    shares: bool = False
    """A gradient is stored as it arrives, and shares memory with another."""
    late: bool = False
    """A rule reads what its operands hold when it runs, not what they held in the forward pass."""
    dtype: Name = "float64"
    """What float64 is kept as."""
    padded: Name = ""
    """How shapes are changed, where they are."""
    reducers: list[Reducer] = []
    ops: dict[Name, list[Name]] = {}
    """By op: the functions of the engine that run for it and for no other."""


class NothingWorked(Exception):
    """All that could be thought of was tried."""
