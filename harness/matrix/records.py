"""What a kill matrix says, as plain records: the shape of `harness matrix --json`.

Schema 1: keys may be added, never renamed.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.core.report import EngineReport
from harness.core.vocabulary import Loss, Outcome
from harness.pages.page import Pardon

Fate = Literal["survived", "never-reached", "does-not-apply", "crashes-only", "caught"]
"""What became of a break, worst first.

`survived`: some probe runs the patched code, and no diagnostic that was asked catches it anywhere.
`never-reached`: no probe runs it, so nothing is known. `crashes-only`: caught, but it never
corrupts anything silently: nobody could overlook it.
"""


class Witness(msgspec.Struct, frozen=True):
    """The least that shows a break: the smallest probe, and on it the cheapest diagnostic."""

    probe: str
    loss: Loss | None
    diagnostic: str
    elements: int
    """In the probe's leaves."""
    passes: float
    """What the diagnostic costs there, in forward passes."""
    margin: float | None
    """Orders of magnitude above the clean engine's noise, where the diagnostic measures any."""
    message: str


class BreakRow(msgspec.Struct, frozen=True):
    """A break against every diagnostic."""

    break_: str = msgspec.field(name="break")
    family: str
    headline: Outcome
    fate: Fate
    survived: bool
    caught_by: dict[str, list[str]]
    """The probes with which each diagnostic catches it, in the order in which they ran."""
    messages: dict[str, str]
    """What each of those diagnostics says on the first of its probes."""
    missed_by: list[str]
    """Asked on some run, and no catch on any."""
    unasked: dict[str, str]
    """Never asked on this break, and why not."""
    wrong_reason: dict[str, str]
    """Alarms that are no catch, since the clean engine raises them too."""
    caught_elsewhere: list[str]
    """Diagnostics that could not be asked here, and caught it when the matrix was last accepted."""
    witness: Witness | None
    pardon: Pardon | None
    why: str
    """Of a break that nobody catches: at which stage it is lost, from its most telling run."""

    @property
    def problem(self) -> str | None:
        """What is not as it should be, unless its page pardons it."""
        if self.pardon:
            catchers = ", ".join(self.caught_by)
            return f"{self.break_} is pardoned, but caught by {catchers}" if catchers else None
        if self.survived and not self.caught_elsewhere:
            return f"{self.break_} survives: no diagnostic catches it with any probe"
        if self.fate == "never-reached":
            return f"{self.break_} is never reached: no probe runs the patched code"
        return None


class DiagnosticRow(msgspec.Struct, frozen=True):
    """A diagnostic over the whole matrix."""

    name: str
    cost: str
    """In forward passes of one probe; P is the number of elements in its leaves."""
    passes: float
    """Forward passes over all probes and losses on which it was asked."""
    caught: int
    recall: float | None
    """The share that it catches of the breaks that can be caught; None where that is unknown."""
    false_alarms: int
    sole: list[str]
    """The breaks that nothing else catches."""


class FalseAlarm(msgspec.Struct, frozen=True):
    """An alarm about an engine that is correct."""

    where: str
    """`clean`, or the id of the variant or of the control."""
    diagnostic: str
    probe: str
    loss: Loss | None
    message: str


class VariantRow(msgspec.Struct, frozen=True):
    """A correct rewrite of the engine, on which every diagnostic must be silent."""

    variant: str
    alarms: list[FalseAlarm]


class ControlRow(msgspec.Struct, frozen=True):
    """Something that must hold before the matrix is believed."""

    control: str
    says: str
    """What it holds the diagnostics to."""
    problems: list[str]


class FamilyRow(msgspec.Struct, frozen=True):
    """A family of breaks: who catches how many of them, and whom nobody can replace."""

    family: str
    breaks: int
    caught: int
    caught_by: dict[str, int]
    sole: dict[str, list[str]]


class Cover(msgspec.Struct, frozen=True):
    """A set that loses nothing: it catches every break that everything together catches."""

    chosen: list[str]
    covers: int
    optimal: bool
    """Whether it is proved that no smaller set would do."""
    solver: str


class Step(msgspec.Struct, frozen=True):
    """A set of diagnostics that no cheaper set beats."""

    passes: float
    caught: int
    share: float
    diagnostics: list[str]


class Difference(msgspec.Struct, frozen=True):
    """A line in which the matrix is not as it was committed: `-` was there, `+` is new."""

    break_: str = msgspec.field(name="break")
    sign: Literal["-", "+"]
    text: str


class Matrix(msgspec.Struct, frozen=True):
    """Breaks x diagnostics, with everything that follows from it."""

    schema: int
    engine: EngineReport
    agrees: bool
    """Nothing in `problems`: the exit status is 0."""
    problems: list[str]
    """Why it is not as it should be, a sentence each, the gravest first."""
    controls: list[ControlRow]
    diagnostics: list[DiagnosticRow]
    skipped: dict[str, str]
    """Diagnostics that could not be asked anywhere, and why: neither silent nor blind."""
    breaks: list[BreakRow]
    """Survivors first, then by family."""
    families: list[FamilyRow]
    variants: list[VariantRow]
    clean: list[FalseAlarm]
    probe_set: Cover
    """The fewest probes that lose nothing, with every diagnostic asked on each."""
    diagnostic_set: Cover
    """The fewest diagnostics that lose nothing, with every probe run for each."""
    pair_set: Cover
    """The fewest pairs `probe: diagnostic` that lose nothing."""
    frontier: list[Step]
    differences: list[Difference] | None
    """From the committed matrix; None where none is committed."""
    seconds: float
