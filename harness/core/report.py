"""A report: what the lab found, as one record. The other modules here show it, one a format."""

from __future__ import annotations

import msgspec

from harness.core.vocabulary import Loss, Outcome, Stage


class SiteReport(msgspec.Struct, frozen=True):
    """A place in the engine that the patch changed."""

    file: str
    line: int
    scope: str


class EngineReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which engine it was."""

    name: str
    variant: str | None
    foreign: bool = False
    """It is not ours: what a page says of it is a comparison."""
    like: str | None = None
    """The variant of ours whose outcomes the page's are compared by."""


class RunReport(msgspec.Struct, frozen=True):
    """What the break did to one probe under one loss, and who noticed."""

    probe: str
    loss: Loss | None
    outcome: Outcome
    kind: str | None
    evidence: str
    stage: Stage | None
    """How far the fault came; None where many probes were run, and it was not asked for."""
    why: str
    """The same as a sentence for the learner."""
    fingerprint: str | None
    first_divergence: str | None
    better_than_correct: bool
    expected: Outcome | None
    agrees: bool | None
    """None where the page states nothing."""
    caught_by: list[str]
    missed_by: list[str]
    skipped: dict[str, str]
    alarms: dict[str, str]
    """The message of each diagnostic in `caught_by`."""
    wrong_reason: dict[str, str]
    """Alarms of diagnostics that also raise one on the clean engine: no catch."""
    margins: dict[str, float]
    """Of diagnostics in `caught_by` that measure a deviation: orders of magnitude above the clean
    engine's own noise. In JSON null stands for infinity."""
    repeatable: bool = True
    """Whether another run would show the same; False where it depends on the machine, such as after
    a time limit."""


class ClaimReport(msgspec.Struct, frozen=True):
    """A page's claim about a diagnostic, held against what was seen."""

    diagnostic: str
    claim: str
    agrees: bool | None
    """None where the diagnostic could not be asked."""
    evidence: str


class Report(msgspec.Struct, frozen=True):
    """Schema 1: keys may be added, never renamed."""

    schema: int
    break_: str = msgspec.field(name="break")
    kind: str
    engine: EngineReport
    sites: list[SiteReport]
    diff: str
    headline: Outcome
    agrees: bool
    seconds: float
    runs: list[RunReport]
    claims: list[ClaimReport]
    missing: dict[str, str] = {}
    """Diagnostics that could not be asked at all: a library is not installed."""
    left_out: dict[str, str] = {}
    """Probes that a foreign engine cannot be judged by, and why."""

    @property
    def repeatable(self) -> bool:
        """Whether the report would be the same another time, so that it may be cached."""
        return all(run.repeatable for run in self.runs)

    @property
    def agreement(self) -> tuple[int, int]:
        """How many runs end as the page says, of those of which it says something."""
        stated = [run for run in self.runs if run.agrees is not None]
        return sum(bool(run.agrees) for run in stated), len(stated)
