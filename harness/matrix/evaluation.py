"""The input of a matrix: a report on every break, variant and control."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from harness.core.message import Message
from harness.core.report import EngineReport, Report, RunReport
from harness.core.vocabulary import Loss
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

    @cached_property
    def sizes(self) -> dict[str, Size]:
        """The size of every probe, by its unique name: see `Evaluation.probe_key`."""
        own = {
            evaluation.probe_key(name): size
            for evaluation in self.everything
            for name, size in evaluation.own.items()
        }
        return {**self.shared, **own}

    @cached_property
    def skipped(self) -> dict[str, str]:
        """The diagnostics that judged no run at all, each with its reasons."""
        runs = [run for evaluation in self.everything for run in evaluation.report.runs]
        return {
            diagnostic.name: reasons(diagnostic.name, [run.declined for run in runs])
            or reasons(diagnostic.name, [run.skipped for run in runs])
            or "no run was suitable for it"
            for diagnostic in self.diagnostics
            if not any(diagnostic.name in verdicts_on(run) for run in runs)
        }

    @cached_property
    def false_alarms(self) -> tuple[FalseAlarm, ...]:
        """Every alarm on a correct engine: unpatched, not changed by its patch, or a variant.

        A variant's alarm does not count on a run that differs by convention, and one that the
        unpatched engine raises too is counted there, not again for each variant.
        """
        no_op = self.conventions.controls.no_op
        pages = [page for page in self.controls if page.name == no_op][:1]
        alarms = [
            false_alarms(page.name, run.probe, run.loss, run.alarms)
            for page in (*pages, *self.variants)
            for run in page.report.runs
            if page in pages or run.outcome != "convention"
        ]
        return (*self.clean, *chain(*alarms))

    def passes(self, diagnostic: str, probe: str) -> float:
        """Return the cost of a diagnostic on a probe (its unique name) in forward passes."""
        return self._passes[diagnostic](self.sizes[probe].elements)

    @cached_property
    def _passes(self) -> dict[str, Callable[[int], float]]:
        return {diagnostic.name: diagnostic.passes for diagnostic in self.diagnostics}


def verdicts_on(run: RunReport) -> list[str]:
    """Return the diagnostics that judged the run: those that raised an alarm or were silent."""
    alarms = () if run.outcome == "not-reached" else run.wrong_reason
    return [*run.caught_by, *run.no_alarm, *alarms]


def reasons(diagnostic: str, stated_by: Iterable[Mapping[str, Message]]) -> str:
    """Return why a diagnostic judged nothing: its reasons on the runs, the commonest first."""
    stated = [str(stated[diagnostic]) for stated in stated_by if diagnostic in stated]
    return "; ".join(sorted(set(stated), key=lambda reason: (-stated.count(reason), reason)))


def false_alarms(
    where: str, probe: str, loss: Loss | None, alarms: Mapping[str, Message]
) -> list[FalseAlarm]:
    """Return the alarms on a run of a correct engine."""
    return [FalseAlarm(where, name, probe, loss, str(text)) for name, text in alarms.items()]
