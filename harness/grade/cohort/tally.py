"""The tally of a cohort: a row for each submission, and a count for each break.

It depends only on the results and on the weights, and not on the order in which results were
stored. What is stored does not depend on the weights, so they may change without grading again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from harness.grade.cohort.results import ResultReader, SubmissionResult, result_files
from harness.grade.feedback import disclose
from harness.grade.suite import EVEN, Fate, Weights, counting


class SubmissionRow(msgspec.Struct, frozen=True):
    """The result of one submission."""

    submission: str
    gradable: bool
    reason: str
    """Why it cannot be graded."""
    score: float | None
    """By weight, in percent."""
    killed: int
    of: int
    survived: int
    not_reached: int
    recognised: int
    tests: int
    flaky: int
    """The number of tests that do not count because their results vary."""
    points: float | None
    excluded: int
    """The number of tests that fail on a correct engine."""
    levels: dict[int, float | None]
    """The score by level, and by family."""
    families: dict[str, float | None]


@dataclass
class BreakCount:
    """What became of one break in all submissions that can be graded."""

    break_: str
    family: str
    level: int
    fates: Counter[Fate] = field(default_factory=Counter)
    missed_by: list[str] = field(default_factory=list)
    """The submissions that do not kill it, sorted by name."""

    @property
    def missed(self) -> int:
        """The number of submissions that do not kill it."""
        return len(self.missed_by)


@dataclass
class Tally:
    """The results of a cohort."""

    rows: list[SubmissionRow]
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
    def gradable(self) -> list[SubmissionRow]:
        """The submissions that can be graded."""
        return [row for row in self.rows if row.gradable]


def tally(
    out: Path, roster: Mapping[str, str], weights: Weights = EVEN, *, partial: bool = False
) -> Tally:
    """Count the results in a folder, one for each submission.

    With `partial`, a suite is graded without the tests that fail on a correct engine.
    """
    reader = ResultReader(SubmissionResult)
    rows: dict[str, SubmissionRow] = {}
    counts: dict[str, BreakCount] = {}
    failed: list[str] = []
    for result in results_in(out, roster, reader):
        row = rows[result.submission] = _row(result, weights, partial)
        if result.final:
            if row.gradable:
                _count(result, weights, counts)
        else:
            failed.append(result.submission)
    for count in counts.values():
        count.missed_by.sort()
    return Tally(
        rows=sorted(rows.values(), key=lambda row: row.submission),
        breaks=sorted(counts.values(), key=lambda count: (-count.missed, count.break_)),
        missing=sorted(roster.keys() - rows.keys()),
        failed=sorted(failed),
        damaged=reader.damaged,
    )


def results_in(
    out: Path, roster: Mapping[str, str], reader: ResultReader[SubmissionResult] | None = None
) -> Iterator[SubmissionResult]:
    """Yield one result for the present files of each submission: a final one, if there is any."""
    reader = reader or ResultReader(SubmissionResult)
    failed: dict[str, SubmissionResult] = {}
    final: set[str] = set()
    for file in result_files(out):
        for result in reader.read(file):
            name = result.submission
            if roster.get(name) != result.digest:
                continue
            if not result.final:
                failed[name] = result
            elif name not in final:
                final.add(name)
                yield result
    yield from (result for name, result in failed.items() if name not in final)


def _row(result: SubmissionResult, weights: Weights, partial: bool) -> SubmissionRow:
    report = result.report
    grade = disclose(report, "names", weights, partial=partial)
    fates = Counter(one.fate for one in counting(report.breaks, weights) if grade.gradable)
    return SubmissionRow(
        submission=result.submission,
        gradable=grade.gradable,
        reason=grade.reason,
        score=grade.score,
        killed=grade.killed,
        of=grade.of,
        survived=fates["survived"],
        not_reached=fates["not-reached"],
        recognised=fates["recognised"],
        tests=report.tests,
        flaky=len(report.flaky),
        points=grade.points,
        excluded=len(report.excluded),
        levels={level: score.score for level, score in grade.levels.items()},
        families={family: score.score for family, score in (grade.families or {}).items()},
    )


def _count(result: SubmissionResult, weights: Weights, counts: dict[str, BreakCount]) -> None:
    for judged in counting(result.report.breaks, weights):
        empty = BreakCount(judged.break_, judged.family, judged.level)
        count = counts.setdefault(judged.break_, empty)
        count.fates[judged.fate] += 1
        if judged.fate != "killed":
            count.missed_by.append(result.submission)
