"""What came of a break of the training tier. Schema 1: keys are added, never renamed."""

from __future__ import annotations

import msgspec

from harness.core.report import EngineReport, SiteReport
from harness.core.vocabulary import Outcome
from harness.training.statistics import Verdict

HIDDEN = "deployed_"
"""How the names of metrics begin that no log has: they are measured on data of later."""


class Band(msgspec.Struct, frozen=True):
    """What a metric does over the seeds."""

    low: float
    median: float
    high: float


class MetricReport(msgspec.Struct, frozen=True):
    """One metric: its last value in the log of each run."""

    metric: str
    in_log: bool
    """False for what only the future would tell: it is no help to whoever reads the log."""
    clean: Band
    broken: Band
    verdict: Verdict
    expected: Verdict | None
    agrees: bool | None
    """None where the page states nothing."""
    effect: float
    """A: how often a broken run is above a clean one."""
    interval: tuple[float, float]
    """Of A, 90 %."""
    p: float
    """Corrected for the number of metrics."""
    one_run_tells: float
    """The share of broken runs outside of what the clean runs of the other seeds span."""
    one_run_accuses: float
    """The same share of clean runs: the false alarms of that way of looking."""
    runs_needed: int | None
    """Of each kind, to show a difference of this size with 80 % power; None where there is none."""
    better_than_correct: bool
    """It improves, by a bug, where a developer sees it: never a pass."""


class CrashReport(msgspec.Struct, frozen=True):
    """The seeds with which the broken training ends early."""

    count: int
    seen: str
    expected: str
    agrees: bool
    evidence: str


class TrainingReport(msgspec.Struct, frozen=True):
    """The record."""

    schema: int
    break_: str = msgspec.field(name="break")
    kind: str
    engine: EngineReport
    recipe: str
    seeds: int
    sites: list[SiteReport]
    diff: str
    headline: Outcome
    agrees: bool
    seconds: float
    crash: CrashReport
    metrics: list[MetricReport]
    one_run_tells: float
    """The share of broken runs of which any metric in the log is outside the clean runs' span."""
    one_run_accuses: float
    runs_needed: int | None
    """By the metric in the log that shows it best."""
