"""Comparing clean and broken trainings: statistics of paired runs, and the records of a report.

Two samples are *paired* by seed: `clean[i]` and `broken[i]` come from the same seed, hence from the
same data and the same initial weights, unless the change affects these. Pairing determines how
small a difference can be shown; whether it *matters* is measured against the spread between seeds,
which a single training is subject to. No value may be NaN: see `lab.metric_values`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.core.report import DrawnComparison, EngineReport, SiteReport
from harness.core.vocabulary import Outcome

Sample = NDArray[np.float64]

Shift = Literal["lower", "higher", "same", "unclear"]
"""`same`: a difference that matters is excluded; `unclear`: these runs neither show a difference
nor exclude one."""

LEVEL = 0.05
"""The largest rate of false alarms over all metrics of a break that does nothing."""

MATTERS = 0.14
"""The smallest distance of A from 1/2 that counts: 0.64 is a "medium" effect in Vargha and Delaney,
2000, and belongs to normal samples half a standard deviation apart, DeepCrime's limit (Humbatova,
Jahangirova and Tonella, DeepCrime: Mutation Testing of Deep Learning Systems, 2021)."""

POWER = 0.8
RESAMPLES = 9_999
"""The number of resamples; up to 13 pairs the test is exact."""


@dataclass(frozen=True)
class MetricComparison:
    """The comparison of one metric, before the correction for several metrics."""

    effect: float
    """A: the probability that a broken run is above a clean one, ties counting half."""
    interval: tuple[float, float]
    """The 90 % confidence interval of A."""
    p: float

    def verdict(self, adjusted_p: float) -> Shift:
        """Return what the runs show, from the p value corrected for the number of metrics."""
        if adjusted_p <= LEVEL and abs(self.effect - 0.5) >= MATTERS:
            return "higher" if self.effect > 0.5 else "lower"
        low, high = self.interval
        return "same" if max(0.5 - low, high - 0.5) < MATTERS else "unclear"


def compare(clean: Sample, broken: Sample) -> MetricComparison:
    """Compare two paired samples of the same length, infinities allowed."""
    return MetricComparison(
        effect(clean, broken), interval(clean, broken), signed_rank(clean, broken)
    )


def signed_rank(clean: Sample, broken: Sample) -> float:
    """Return the two-sided p value of Wilcoxon's signed-rank test, by permuting signs.

    It is valid with ties and zeros, which are frequent for accuracies; because of the ranks, a
    single diverging run does not decide. Sources: Wilcoxon, Individual Comparisons by Ranking
    Methods, 1945;
    zeros: Pratt, 1959; a p value from draws is never 0: Phipson and Smyth, 2010.
    """
    from scipy import stats  # an extra, and slow to import

    with np.errstate(invalid="ignore"):
        differences = np.where(clean == broken, 0.0, broken - clean)
    ranks = np.sign(differences) * stats.rankdata(np.abs(differences))
    test = stats.permutation_test(
        (ranks,),
        np.sum,
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        rng=np.random.default_rng(0),
    )
    return float(test.pvalue)


def effect(clean: Sample, broken: Sample) -> float:
    """Return A: the share of all pairs, also of different seeds, in which the broken run is above.

    Source: Vargha and Delaney, A Critique and Improvement of the CL Common Language Effect Size
    Statistics, 2000; for software: Arcuri and Briand, 2011.
    """
    above = np.greater.outer(broken, clean) + 0.5 * np.equal.outer(broken, clean)
    return float(above.mean())


def interval(clean: Sample, broken: Sample) -> tuple[float, float]:
    """Return the 90 % percentile bootstrap interval of A, drawing seeds.

    An interval of 90 % inside the limits shows equivalence at 5 % (two one-sided tests: Schuirmann,
    1987). Source of the bootstrap: Efron and Tibshirani, 1993, chapter 13.
    """
    draws = _draws(len(clean))
    order = np.argsort(clean)
    below = np.pad(draws[order].cumsum(0), ((1, 0), (0, 0)))  # draws of the k lowest clean runs
    lower, upper = (np.searchsorted(clean[order], broken, side) for side in ("left", "right"))
    effects = (draws * (below[lower] + below[upper])).sum(0) / (2 * len(clean) ** 2)
    low, high = np.quantile(effects, [0.05, 0.95])
    return float(low), float(high)


@lru_cache(maxsize=1)
def _draws(count: int) -> NDArray[np.int64]:
    """Return how often each resample draws each seed, shape (seeds, 2,000)."""
    shares = np.full(count, 1 / count)
    return np.random.default_rng(0).multinomial(count, shares, size=2_000).T


def holm(values: Sequence[float]) -> list[float]:
    """Return p values of several tests, corrected to bound the rate of *any* false alarm.

    Source: Holm, A Simple Sequentially Rejective Multiple Test Procedure, 1979.
    """
    corrected, largest = [0.0] * len(values), 0.0
    for done, index in enumerate(np.argsort(values, kind="stable")):
        largest = max(largest, min(1.0, (len(values) - done) * values[index]))
        corrected[index] = largest
    return corrected


def outside(runs: Sample, clean: Sample) -> NDArray[np.bool_]:
    """Return which runs, shape (seeds,), are outside the range of clean runs of *other* seeds.

    A run is never compared with the clean run of its own seed, so clean runs can be tested as well:
    of n + 1 equally distributed runs without ties, one is outside the others with probability
    2 / (n + 1) (Wilks, Determination of Sample Sizes for Setting Tolerance Limits, 1941).
    """
    others = np.array([np.delete(clean, i) for i in range(len(clean))])
    is_outside: NDArray[np.bool_] = (runs < others.min(1)) | (runs > others.max(1))
    return is_outside


def runs_needed(effect: float) -> int:
    """Return how many unpaired runs of each kind show such an effect with 80 % power at 5 %.

    Source: Noether, Sample Size Determination for Some Common Nonparametric Tests, 1987, for the
    Wilcoxon-Mann-Whitney test; at least 4, with which its exact p value can fall below 5 %.
    """
    normal = NormalDist()
    both = normal.inv_cdf(1 - 0.05 / 2) + normal.inv_cdf(POWER)
    return max(4, math.ceil(both**2 / (6 * (effect - 0.5) ** 2)))


# ----- The report. Schema 1: keys may be added, never renamed -----

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
