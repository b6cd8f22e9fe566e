"""The tally of a cohort: a row for each submission, and a count for each break.

It depends only on the results and on the weights, and not on the order in which results were
stored. What is stored does not depend on the weights, so they may change without grading again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from harness.grade.cohort.results import (
    ResultHeader,
    ResultReader,
    StoredResults,
    SubmissionResult,
    identity,
    result_files,
)
from harness.grade.feedback import disclose
from harness.grade.styles import STYLES, Style
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
    styles: list[Style] = []
    """The styles of its tests."""


class PastScore(NamedTuple):
    """A result of a submission that may have been graded again since."""

    day: str
    """The day on which it was graded; empty if that is not known."""
    score: float | None
    """None if it could not be graded."""
    missed: tuple[str, ...]
    """The breaks that it did not kill."""


class ClassDay(NamedTuple):
    """The scores of a class at the end of a day on which something was graded."""

    day: str
    scores: list[float]
    """Those of the submissions that could be graded, each as it was graded last."""
    missed: Counter[str]
    """The number of these submissions that missed each break."""


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

    @property
    def share_missed(self) -> float:
        """The share of the submissions that do not kill it."""
        return self.missed / self.fates.total()

    def share_missed_among(self, names: Collection[str]) -> float | None:
        """The share of some of the submissions that do not kill it; None if there are none."""
        return len(set(names).intersection(self.missed_by)) / len(names) if names else None


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
    history: dict[str, list[PastScore]]
    """The results of each submission, the newest last, whether or not its files are the same."""

    @property
    def gradable(self) -> list[SubmissionRow]:
        """The submissions that can be graded."""
        return [row for row in self.rows if row.gradable]

    def by_style(self) -> dict[Style, list[SubmissionRow]]:
        """Return the submissions that can be graded, by the styles of their tests."""
        groups = {style: [r for r in self.gradable if style in r.styles] for style in STYLES}
        return {style: rows for style, rows in groups.items() if rows}

    def days(self) -> list[ClassDay]:
        """Return the scores of the class after each day on which something was graded."""
        present: dict[str, PastScore] = {}
        days = []
        for day in sorted({past.day for scores in self.history.values() for past in scores}):
            for name, scores in self.history.items():
                present.update((name, past) for past in scores if past.day == day)
            graded = [past for past in present.values() if past.score is not None]
            missed = Counter(name for past in graded for name in past.missed)
            days.append(ClassDay(day, [past.score or 0.0 for past in graded], missed))
        return days


def tally(
    out: Path, roster: Mapping[str, str], weights: Weights = EVEN, *, partial: bool = False
) -> Tally:
    """Count the results in a folder, one for each submission.

    With `partial`, a suite is graded without the tests that fail on a correct engine.
    """
    reader = ResultReader(SubmissionResult)
    rows: dict[str, SubmissionRow] = {}
    counts: dict[str, BreakCount] = {}
    history: dict[str, dict[tuple[int, str, str], PastScore]] = {}
    names: dict[str, str] = {}  # of the breaks, each of which is in memory once
    failed: list[str] = []
    for result, is_newest in _results(out, roster, reader):
        row = _row(result, weights, partial)
        if result.final and result.submission in roster:
            place = result.number, result.day, result.digest
            history.setdefault(result.submission, {})[place] = _past(result, row, weights, names)
        if not is_newest:
            continue
        rows[result.submission] = row
        if not result.final:
            failed.append(result.submission)
        elif row.gradable:
            _count(result, weights, counts)
    for count in counts.values():
        count.missed_by.sort()
    return Tally(
        rows=sorted(rows.values(), key=lambda row: row.submission),
        breaks=sorted(counts.values(), key=lambda count: (-count.missed, count.break_)),
        missing=sorted(roster.keys() - rows.keys()),
        failed=sorted(failed),
        damaged=reader.damaged,
        history={
            name: [past for _, past in sorted(history[name].items())] for name in sorted(history)
        },
    )


def results_in(out: Path, roster: Mapping[str, str]) -> Iterator[SubmissionResult]:
    """Yield the result that counts for the present files of each submission, if there is any."""
    results = _results(out, roster, ResultReader(SubmissionResult))
    return (result for result, is_newest in results if is_newest)


def _results(
    out: Path, roster: Mapping[str, str], reader: ResultReader[SubmissionResult]
) -> Iterator[tuple[SubmissionResult, bool]]:
    """Yield all results, old ones too, and whether each is the one that counts."""
    left: dict[str, ResultHeader] = StoredResults(out, roster).newest
    for file in result_files(out):
        for result in reader.read(file):
            newest = left.get(result.submission)
            counts = newest is not None and identity(newest) == identity(result)
            if counts:
                del left[result.submission]
            yield result, counts


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
        styles=report.styles,
    )


def _past(
    result: SubmissionResult, row: SubmissionRow, weights: Weights, names: dict[str, str]
) -> PastScore:
    judged = counting(result.report.breaks, weights) if row.gradable else []
    missed = (one.break_ for one in judged if one.fate != "killed")
    return PastScore(result.day, row.score, tuple(names.setdefault(name, name) for name in missed))


def _count(result: SubmissionResult, weights: Weights, counts: dict[str, BreakCount]) -> None:
    for judged in counting(result.report.breaks, weights):
        empty = BreakCount(judged.break_, judged.family, judged.level)
        count = counts.setdefault(judged.break_, empty)
        count.fates[judged.fate] += 1
        if judged.fate != "killed":
            count.missed_by.append(result.submission)
