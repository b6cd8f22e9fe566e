"""What goes into a survey and what comes out of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.confine import Limits
from harness.engine import Dialect
from harness.run import Failure

Step = Literal["the import", "the class", "the tensors", "the accumulation", "the un-broadcasting"]

STEPS: tuple[Step, ...] = (
    "the import",
    "the class",
    "the tensors",
    "the accumulation",
    "the un-broadcasting",
)


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

    module: str
    name: str
    """Qualified: `Tensor.unbroadcast`."""
    file: str
    line: int
    callers: dict[str, list[str]] = {}
    """By op: the functions that called it in a backward pass."""
    flaws: list[str] = []
    """What it gets wrong, each with a witness."""


class Surveyed(msgspec.Struct, frozen=True):
    """What a step found; the last frame of a step that failed says so."""

    step: Step
    dialect: Dialect
    name: str | None = None
    failure: Failure | None = None
    tried: list[str] = []
    """What did not work, where nothing did."""
    before: str = ""
    """A leaf's gradient before the first walk: none, zeros, number."""
    second: str = ""
    """What a second walk does to it: in place, rebound, replaced; or it is refused."""
    shares: bool = False
    """A gradient is stored as it arrives, and shares memory with another."""
    dtype: str = "float64"
    """What float64 is kept as."""
    padded: str = ""
    """How shapes are changed, where they are."""
    reducers: list[Reducer] = []
    ops: dict[str, list[str]] = {}
    """By op: the functions of the engine that run for it and for no other."""


class NothingWorked(Exception):
    """All that could be thought of was tried."""
