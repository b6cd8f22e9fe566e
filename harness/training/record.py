"""The report on a whole training run. Schema 1: keys may be added, never renamed."""

from __future__ import annotations

import msgspec

from harness.core.report import DrawnComparison, EngineReport, SiteReport
from harness.core.vocabulary import Outcome
from harness.training.statistics import Shift

HIDDEN = "deployed_"
"""The prefix of metrics that are in no log: they are measured on later data."""


class Band(msgspec.Struct, frozen=True):
    """The range of a metric over the seeds."""

    low: float
    median: float
    high: float


class MetricReport(msgspec.Struct, frozen=True):
    """One metric: the last value in the log of each run."""

    metric: str
    in_log: bool
    """False for a metric of later data, which is not in a log."""
    clean: Band
    broken: Band
    verdict: Shift
    expected: Shift | None
    agrees: bool | None
    """None if the page states nothing."""
    effect: float
    """A: the probability that a broken run is above a clean one."""
    interval: tuple[float, float]
    """The 90 % confidence interval of A."""
    p: float
    """The p value, corrected for the number of metrics."""
    one_run_tells: float
    """The share of broken runs outside the range of the clean runs with other seeds."""
    one_run_accuses: float
    """The same share of clean runs: the rate of false alarms of that check."""
    runs_needed: int | None
    """Runs of each kind that show such a difference with 80 % power; None if there is none."""
    better_than_correct: bool
    """A metric in the log improves because of the bug; that is never a pass."""


class CrashReport(msgspec.Struct, frozen=True):
    """How many seeds make the broken training end early."""

    count: int
    observed: str = msgspec.field(name="seen")
    expected: str
    agrees: bool
    evidence: str


ALARM_TOLERANCE = 0.1
"""How much the shares of alarms may differ from those that a page states."""


class AlarmReport(msgspec.Struct, frozen=True):
    """How often the invariant of a page fails on the log of one run."""

    assertion: str
    false: float
    """The share of correct runs on which it fails."""
    true: float
    """The same share of the broken runs that do not crash."""
    stated_false: float | None
    stated_true: float | None
    problem: str | None = None
    """The first failure other than a failed assertion."""

    @property
    def agrees(self) -> bool:
        """Whether the page states these shares, and the invariant tells broken runs apart."""
        stated = self.stated_false, self.stated_true
        return (
            self.problem is None
            and self.false < self.true
            and not any(map(self.differs, stated, (self.false, self.true)))
        )

    @staticmethod
    def differs(stated: float | None, observed: float) -> bool:
        """Whether a page does not state a share, or states a different one."""
        return stated is None or abs(observed - stated) > ALARM_TOLERANCE


class TrainingReport(msgspec.Struct, frozen=True):
    """The report on a break of a whole training run."""

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
    """The share of broken runs with any metric in the log outside the clean runs' range."""
    one_run_accuses: float
    runs_needed: int | None
    """Runs that the metric in the log that shows it best needs."""
    alarms: AlarmReport | None = None
    """How often the page's invariant fails; None if it has none."""
    why: str = ""
    beware: str = ""
    invariant: str = ""
    """As in the report on a break with probes."""
    losses: DrawnComparison | None = None
    """The logged losses of the first run, correct and broken; None if either has fewer than two."""
