"""The records of a kill matrix: the structure of `harness matrix --json`.

Schema 1: keys may be added, never renamed.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Literal

import msgspec

from harness.core.message import Message
from harness.core.report import EngineReport
from harness.core.vocabulary import Loss, Outcome
from harness.pages.front_matter import Pardon

BreakFate = Literal[
    "survived", "never-reached", "misplaced", "does-not-apply", "crashes-only", "caught"
]
"""The fate of a break, worst first.

`survived`: some probe runs the patched code, and no diagnostic that ran catches it anywhere.
`never-reached`: no probe runs it, so nothing is known. `misplaced`: in this engine, the patch is
not the change that the page describes. `crashes-only`: caught, but never silently wrong, so it
cannot be overlooked.
"""


Mark = Literal["sole", "caught", "missed", "declined", "unasked"]
"""What a diagnostic says about a break; `sole`: it alone catches it. See the fields of BreakRow."""


class Witness(msgspec.Struct, frozen=True):
    """The cheapest way to show a break: the smallest probe, and on it the cheapest diagnostic."""

    probe: str
    loss: Loss | None
    diagnostic: str
    elements: int
    """The number of elements in the probe's inputs."""
    passes: float
    """The cost of the diagnostic on that probe, in forward passes."""
    margin: float | None
    """Orders of magnitude above the clean engine's noise; None if the diagnostic measures none."""
    message: str


class BreakRow(msgspec.Struct, frozen=True):
    """A break against every diagnostic."""

    break_: str = msgspec.field(name="break")
    family: str
    headline: Outcome
    fate: BreakFate
    survived: bool
    caught_by: dict[str, list[str]]
    """The probes with which each diagnostic catches it, in the order in which they ran."""
    messages: dict[str, Message]
    """The message of each of those diagnostics on the first of its probes."""
    missed_by: list[str]
    """Diagnostics that raised no alarm on some wrong run and caught nothing on any."""
    declined: dict[str, str]
    """Diagnostics that looked at some run but could judge none, with the reason."""
    unasked: dict[str, str]
    """Diagnostics that never looked at a wrong run of this break, with the reason."""
    wrong_reason: dict[str, str]
    """Alarms that do not count, since the clean engine raises them too."""
    caught_elsewhere: list[str]
    """Diagnostics that cannot run here, and caught it when the matrix was last accepted."""
    witness: Witness | None
    pardon: Pardon | None
    why: str
    """For a survivor, the stage at which the fault is lost; if misplaced, what shows it."""

    def mark(self, diagnostic: str) -> Mark:
        """Return what a diagnostic says about the break."""
        if diagnostic in self.caught_by:
            return "sole" if len(self.caught_by) == 1 else "caught"
        if diagnostic in self.missed_by:
            return "missed"
        return "declined" if diagnostic in self.declined else "unasked"

    @property
    def judged(self) -> bool:
        """Whether some probe runs the patched code, so that anything is known about it."""
        return self.fate not in ("never-reached", "does-not-apply", "misplaced")

    @property
    def problem(self) -> str | None:
        """What is wrong with the row; None if nothing is, or its page pardons it."""
        if self.pardon:
            catchers = ", ".join(self.caught_by)
            return f"{self.break_} is pardoned, but caught by {catchers}" if catchers else None
        if self.survived and not self.caught_elsewhere:
            return f"{self.break_} survives: no diagnostic catches it with any probe"
        if self.fate == "never-reached":
            return f"{self.break_} is never reached: no probe runs the patched code"
        if self.fate == "misplaced":
            return f"{self.break_}: {self.why}"
        return None


class DiagnosticRow(msgspec.Struct, frozen=True):
    """A diagnostic over the whole matrix."""

    name: str
    cost: str
    """In forward passes of one probe; P is the number of elements in its inputs."""
    passes: float
    """Forward passes over all probes and losses that it judged."""
    caught: int
    recall: float | None
    """The share that it catches of the breaks that can be caught; None if that is unknown."""
    false_alarms: int
    sole: list[str]
    """The breaks that no other diagnostic catches."""


class FalseAlarm(msgspec.Struct, frozen=True):
    """An alarm on a correct engine."""

    where: str
    """`clean`, or the id of the variant or of the control."""
    diagnostic: str
    probe: str
    loss: Loss | None
    message: str


class VariantRow(msgspec.Struct, frozen=True):
    """A correct rewrite of the engine, on which no diagnostic may raise an alarm."""

    variant: str
    alarms: list[FalseAlarm]


class ControlRow(msgspec.Struct, frozen=True):
    """A condition that the matrix must meet before it counts."""

    control: str
    says: str
    """What it requires."""
    problems: list[str]


class FamilyRow(msgspec.Struct, frozen=True):
    """A family of breaks: how many each diagnostic catches, and which only it catches."""

    family: str
    breaks: int
    caught: int
    caught_by: dict[str, int]
    sole: dict[str, list[str]]


class Difference(msgspec.Struct, frozen=True):
    """A difference from the committed matrix: `-` was there, `+` is new."""

    break_: str = msgspec.field(name="break")
    sign: Literal["-", "+"]
    text: str


class Matrix(msgspec.Struct, frozen=True):
    """Breaks x diagnostics, with everything that follows from it."""

    schema: int
    engine: EngineReport
    agrees: bool
    """Whether `problems` is empty; the exit status is then 0."""
    problems: list[str]
    """What is wrong, one sentence each, the most serious first."""
    controls: list[ControlRow]
    diagnostics: list[DiagnosticRow]
    skipped: dict[str, str]
    """Diagnostics that could not run anywhere, with the reason."""
    breaks: list[BreakRow]
    """Survivors first, then by family."""
    families: list[FamilyRow]
    variants: list[VariantRow]
    clean: list[FalseAlarm]
    differences: list[Difference] | None
    """Differences from the committed matrix; None if none is committed."""
    new: list[str]
    """The breaks that are in no committed matrix; empty if none is committed."""
    seconds: float
    repeatable: bool = True
    """Whether evaluating the same pages again would give the same matrix."""

    @property
    def ran(self) -> list[DiagnosticRow]:
        """The diagnostics that judged some run."""
        return [row for row in self.diagnostics if row.name not in self.skipped]

    @property
    def lost(self) -> list[BreakRow]:
        """The breaks that no diagnostic catches, by their fate."""
        return [row for row in self.breaks if not row.caught_by]


def by_family(rows: Iterable[BreakRow]) -> list[tuple[str, list[BreakRow]]]:
    """Return the breaks of each family, in alphabetical order."""
    ordered = sorted(rows, key=lambda row: (row.family, row.break_))
    return [(name, list(own)) for name, own in groupby(ordered, key=lambda row: row.family)]
