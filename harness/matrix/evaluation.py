"""The input of a matrix: a report on every break, variant and control."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.core.report import EngineReport, Report, RunReport
from harness.diagnostics import Diagnostic
from harness.matrix.records import FalseAlarm
from harness.pages.conventions import Conventions
from harness.pages.front_matter import Pardon
from harness.pages.probe import ProbeKind

CleanAlarms = dict[str, list[FalseAlarm]]
"""Alarms about the unpatched engine, by probe."""


@dataclass(frozen=True)
class Size:
    """The size of a probe: a smaller one is a better witness."""

    kind: ProbeKind
    elements: int
    """The number of elements in its inputs."""


@dataclass(frozen=True)
class Evaluation:
    """A page's report, and what else the matrix needs to know about the page."""

    family: str
    report: Report
    pardon: Pardon | None = None
    own: Mapping[str, Size] = field(default_factory=dict)
    """The page's own probes, which no other page is evaluated on."""
    clean: CleanAlarms = field(default_factory=dict)
    """Alarms about the unpatched engine on the page's probes."""

    @property
    def name(self) -> str:
        """The page's id."""
        return self.report.break_

    def probe_key(self, probe: str) -> str:
        """Return a unique name of a probe: `page/probe` for the page's own ones."""
        return f"{self.name}/{probe}" if probe in self.own else probe


@dataclass(frozen=True)
class Evaluations:
    """Everything that a matrix is computed from."""

    engine: EngineReport
    diagnostics: tuple[Diagnostic, ...]
    breaks: tuple[Evaluation, ...]
    variants: tuple[Evaluation, ...]
    controls: tuple[Evaluation, ...]
    clean: tuple[FalseAlarm, ...]
    """Alarms about the unpatched engine, on any probe."""
    shared: Mapping[str, Size]
    """The probes that every page is evaluated on."""
    conventions: Conventions
    """The catalogue's conventions, such as which pages are the controls."""

    @property
    def everything(self) -> tuple[Evaluation, ...]:
        """The evaluation of every page, controls first."""
        return (*self.controls, *self.variants, *self.breaks)

    def size(self, evaluation: Evaluation, probe: str) -> Size:
        """Return the size of a probe on which a page was evaluated."""
        return evaluation.own[probe] if probe in evaluation.own else self.shared[probe]


def gave_verdict(diagnostic: str, run: RunReport) -> bool:
    """Whether the diagnostic gave a verdict on the run; one that was skipped did not."""
    verdicts = (run.caught_by, run.missed_by, run.wrong_reason)
    return any(diagnostic in names for names in verdicts)
