"""What a matrix is made of: reports on breaks, variants and controls, and the sizes of probes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.core.report import EngineReport, Report, RunReport
from harness.diagnostics import Diagnostic
from harness.matrix.record import FalseAlarm
from harness.pages.page import Pardon
from harness.pages.probe import ProbeKind


@dataclass(frozen=True)
class Size:
    """How large a probe is: a smaller one is a better witness."""

    kind: ProbeKind
    elements: int
    """In its leaves."""


@dataclass(frozen=True)
class Tried:
    """A page, as far as the matrix needs it, and what the lab found."""

    family: str
    report: Report
    pardon: Pardon | None = None
    own: Mapping[str, Size] = field(default_factory=dict)
    """The page's own probes, which no other page is tried on."""

    @property
    def name(self) -> str:
        """The page's id."""
        return self.report.break_

    def probe_key(self, probe: str) -> str:
        """A probe's name; the page's own goes by `page/probe`, since two pages may share one."""
        return f"{self.name}/{probe}" if probe in self.own else probe


@dataclass(frozen=True)
class Trials:
    """All that a matrix is made of."""

    engine: EngineReport
    diagnostics: tuple[Diagnostic, ...]
    breaks: tuple[Tried, ...]
    variants: tuple[Tried, ...]
    controls: tuple[Tried, ...]
    clean: tuple[FalseAlarm, ...]
    """What diagnostics say about the unpatched engine, on any probe."""
    shared: Mapping[str, Size]
    """The probes that every page is tried on."""

    @property
    def everything(self) -> tuple[Tried, ...]:
        """Every page that was tried, the controls first."""
        return (*self.controls, *self.variants, *self.breaks)

    def size(self, tried: Tried, probe: str) -> Size:
        """The size of a probe that a page was tried on."""
        return tried.own[probe] if probe in tried.own else self.shared[probe]


def is_asked(diagnostic: str, run: RunReport) -> bool:
    """Whether it looked at that run and said something; a skipped one says nothing."""
    said = (run.caught_by, run.missed_by, run.wrong_reason)
    return any(diagnostic in names for names in said)
