"""The input of a matrix: a report on every break, variant and control, and how it is cached.

An evaluation depends on the page, the engine, the variant and the shared probes, and on Python, the
libraries and all of our own code. Most runs never reach the patch and are the same for every page:
these common reports are stored once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

import msgspec
import numpy as np

from harness.core.message import Message
from harness.core.report import EngineReport, Report, RunReport
from harness.core.vocabulary import Loss
from harness.diagnostics import Diagnostic
from harness.matrix.records import FalseAlarm, Matrix
from harness.pages.conventions import Conventions
from harness.pages.front_matter import Pardon
from harness.pages.probe import Probe, ProbeKind
from harness.runs.cache import Cache, ResultKind

CleanAlarms = dict[str, list[FalseAlarm]]
"""Alarms about the unpatched engine, by probe."""


@dataclass(frozen=True)
class Size:
    """The size of a probe: a smaller one is a better witness."""

    kind: ProbeKind
    elements: int
    """The number of elements in its inputs."""


def size_of(probe: Probe) -> Size:
    """Return the kind of a probe and the number of elements in its inputs."""
    elements = sum(
        math.prod(leaf.shape) if leaf.shape is not None else np.size(np.asarray(leaf.values))
        for leaf in probe.leaves
    )
    return Size(probe.kind, elements)


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


# ----- The cache -----


class StoredEvaluation(msgspec.Struct, frozen=True):
    """An evaluation as it is stored and sent between processes."""

    evaluation: Evaluation
    """Its report has no runs."""
    runs: list[int | RunReport]
    """A number is a position among the common reports."""
    repeatable: bool


EVALUATIONS: ResultKind[StoredEvaluation] = ResultKind("evaluation", StoredEvaluation)
COMMON: ResultKind[list[RunReport]] = ResultKind(
    "common reports",
    list[RunReport],
    is_repeatable=lambda runs: bool(runs) and all(run.repeatable for run in runs),
)
MATRICES: ResultKind[Matrix] = ResultKind("matrix", Matrix)
"""Whole matrices, so that no evaluation has to be read if nothing has changed."""


def pack(evaluation: Evaluation, common: Sequence[RunReport]) -> StoredEvaluation:
    """Return the evaluation as it is stored beside these common reports."""
    positions = {(run.probe, run.loss): position for position, run in enumerate(common)}
    runs: list[int | RunReport] = []
    for run in evaluation.report.runs:
        position = positions.get((run.probe, run.loss))
        runs.append(run if position is None or common[position] != run else position)
    report = msgspec.structs.replace(evaluation.report, runs=[])
    return StoredEvaluation(replace(evaluation, report=report), runs, evaluation.report.repeatable)


def unpack(stored: StoredEvaluation, common: Sequence[RunReport]) -> Evaluation:
    """Return the evaluation that was packed with the same common reports.

    Raises IndexError if there are fewer of them.
    """
    runs = [common[run] if isinstance(run, int) else run for run in stored.runs]
    report = msgspec.structs.replace(stored.evaluation.report, runs=runs)
    return replace(stored.evaluation, report=report)


def cached_common(cache: Cache, shared: bytes) -> list[RunReport]:
    """Return the common reports; empty if they are not cached."""
    return cache.get(COMMON, [shared]).get(shared, [])


def cached_evaluations(
    cache: Cache, keys: Iterable[bytes], common: Sequence[RunReport]
) -> dict[bytes, Evaluation]:
    """Return the cached evaluations that need no other common reports than these."""
    return {
        key: unpack(stored, common)
        for key, stored in cache.get(EVALUATIONS, list(keys)).items()
        if all(run < len(common) for run in stored.runs if isinstance(run, int))
    }
