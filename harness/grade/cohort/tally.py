"""The tally of a cohort: a row for each submission, and a count for each break.

It depends only on the results, and not on the order in which they were stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from harness.grade.cohort.folder import result_files
from harness.grade.cohort.ledger import Reader, Result
from harness.grade.suite import Fate, SuiteReport


class Row(msgspec.Struct, frozen=True):
    """The result of one submission."""

    submission: str
    gradable: bool
    reason: str
    """Why it cannot be graded."""
    score: float | None
    killed: int
    of: int
    survived: int
    not_reached: int
    recognised: int
    tests: int
    flaky: int
    """The number of tests that do not count because their results vary."""


@dataclass
class BreakCount:
    """What became of one break in all submissions that can be graded."""

    break_: str
    family: str
    level: int
    fates: Counter[Fate] = field(default_factory=Counter)

    @property
    def missed(self) -> int:
        """The number of submissions that do not kill it."""
        return self.fates.total() - self.fates["killed"]


@dataclass
class Tally:
    """The results of a cohort."""

    rows: list[Row]
    """Sorted by submission."""
    breaks: list[BreakCount]
    """The breaks with a site in the engine: first those that most submissions miss."""
    missing: list[str]
    """The submissions without a result."""
    failed: list[str]
    """The submissions at which the grader failed."""
    damaged: int
    """The number of damaged lines in the files of results."""

    @property
    def gradable(self) -> list[Row]:
        """The submissions that can be graded."""
        return [row for row in self.rows if row.gradable]


def tally(out: Path, roster: Mapping[str, str]) -> Tally:
    """Count the results in a folder, one for each submission."""
    reader = Reader(Result)
    rows: dict[str, Row] = {}
    counts: dict[str, BreakCount] = {}
    failed: dict[str, Row] = {}
    for result in _valid(reader, out, roster):
        name = result.submission
        if not result.final:
            failed[name] = _row(name, result.report)
        elif name not in rows:
            rows[name] = _row(name, result.report)
            _count(result.report, counts)
    failed = {name: row for name, row in failed.items() if name not in rows}
    rows |= failed
    return Tally(
        rows=sorted(rows.values(), key=lambda row: row.submission),
        breaks=sorted(counts.values(), key=lambda count: (-count.missed, count.break_)),
        missing=sorted(roster.keys() - rows.keys()),
        failed=sorted(failed),
        damaged=reader.damaged,
    )


def _valid(reader: Reader[Result], out: Path, roster: Mapping[str, str]) -> Iterator[Result]:
    """Yield the results for the present files of a submission."""
    for file in result_files(out):
        for result in reader.read(file):
            if roster.get(result.submission) == result.digest:
                yield result


def _row(name: str, report: SuiteReport) -> Row:
    fates = Counter(result.fate for result in report.breaks)
    return Row(
        submission=name,
        gradable=report.gradable,
        reason=report.reason,
        score=report.score if report.gradable else None,
        killed=report.killed,
        of=report.of,
        survived=fates["survived"],
        not_reached=fates["not-reached"],
        recognised=fates["recognised"],
        tests=report.tests,
        flaky=len(report.flaky),
    )


def _count(report: SuiteReport, counts: dict[str, BreakCount]) -> None:
    for result in report.breaks if report.gradable else ():
        if result.fate != "does-not-apply":
            empty = BreakCount(result.break_, result.family, result.level)
            counts.setdefault(result.break_, empty).fates[result.fate] += 1
