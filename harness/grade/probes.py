"""Trials of probes: what the diagnostics say of them on a break and on its twins.

A probe kills a break if a diagnostic raises an alarm on it that is not raised on the engine without
a break. A process ended by a signal, a limit or an exit raises no alarm: any probe can do that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

from harness.core.run import Run
from harness.core.verdict import Alarm
from harness.diagnostics import Observation
from harness.engines.engine import Engine
from harness.experiment.baseline import Baseline
from harness.experiment.context import Context
from harness.grade.trial import TrialVerdict, TrialVersion, judge
from harness.grade.twins import compose
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.runs.cache import Cache

ROUNDS = 4
"""The number of rewrites of a break on which a probe must raise the same alarm."""

_ENDS = {
    *("SystemExit", "KeyboardInterrupt", "ProcessExit", "ForgedResult"),
    *("MemoryError", "TimeLimit", "ProcessorTimeLimit", "ResultTooLarge"),
}


class ProbeTrial:
    """Sound probes on one break, which has a site in the engine, and on its twins.

    `seed` must be unknown to the author of untrusted probes. `cache` is only useful for a seed that
    is used again.
    """

    path = "loaded"

    def __init__(
        self,
        page: Page,
        probes: Sequence[Probe],
        context: Context,
        seed: bytes,
        cache: Cache | None = None,
    ) -> None:
        self.page, self.engine, self.seed = page, context.engine, seed
        self.probes = {probe.name: probe for probe in probes}
        self.baseline = context.baseline
        self.alone = Baseline(cache or Cache(None), self.baseline.diagnostics, self.baseline.limits)
        self.clean = self.baseline.clean(context.engine, probes)
        self._alarms: dict[str, set[str]] = {}
        """The diagnostics that raise an alarm under every rewrite of the break, by probe."""
        self.ended: dict[str, str] = {}
        """The probes ended by a signal, a limit or an exit, and how."""

    def judge(self, rounds: int = ROUNDS) -> TrialVerdict[str]:
        """Return the probes that kill the break, and those that recognise its code."""
        return judge(self, Random(self.seed), rounds)

    def alarms(self, probe: str) -> list[str]:
        """Return the diagnostics that raise an alarm on a probe under every rewrite."""
        names = (diagnostic.name for diagnostic in self.baseline.diagnostics)
        return [name for name in names if name in self._alarms[probe]]

    def tests(self) -> list[str]:
        """Return the names of all probes."""
        return list(self.probes)

    def failing(
        self, version: TrialVersion, number: int, tests: Sequence[str], until: str | None = None
    ) -> list[str]:
        """Return all probes on which a diagnostic raises an alarm."""
        del until  # each probe has a process of its own, and all are run at once
        engine = self._engine(version, number)
        runs = self.alone.broken(self.engine, engine, [self.probes[name] for name in tests])
        alarms: dict[str, set[str]] = {name: set() for name in tests}
        for run in runs:
            if _was_ended(run):
                self.ended.setdefault(run.probe, str(run.failure))
            else:
                alarms[run.probe].update(self._raised(run))
        if version == "broken":
            if number:
                alarms = {name: raised & self._alarms[name] for name, raised in alarms.items()}
            self._alarms = alarms
        return [name for name in tests if alarms[name]]

    def _engine(self, version: TrialVersion, number: int) -> Engine:
        composed = compose(self.engine, self.page, self.seed + bytes([number]))
        assert composed is not None  # it has a site
        files: Mapping[str, str] = composed.broken if version == "broken" else composed.twin
        return replace(self.engine, sources={**self.engine.sources, **files}, sites=())

    def _raised(self, run: Run) -> Iterator[str]:
        """Yield the diagnostics that raise an alarm on a run, and none on the clean engine."""
        key = self.clean[run.probe, run.loss]
        observation = Observation(self.probes[run.probe], run, key.oracles)
        for name, verdict in self.baseline.verdicts_beside(key, observation).items():
            if isinstance(verdict, Alarm) and name not in key.alarms:
                yield name


def _was_ended(run: Run) -> bool:
    """Whether a signal, a limit or an exit ended the run, rather than an exception."""
    kind = run.failure.type if run.failure else ""
    return kind in _ENDS or kind.startswith("SIG")
