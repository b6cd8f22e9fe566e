"""What feedback may show of a suite's result.

`disclose` is the only place that decides it: the formats see a `Grade` and never the whole result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from harness.core.vocabulary import Stage
from harness.grade.disclosure import WITHHELD
from harness.grade.scoring import EVEN, Score, Scores, Weights, counting, scores
from harness.grade.suite import BreakResult, CorrectEngine, Fate, SuiteReport

Feedback = Literal["score", "stage", "names"]
"""`score`: only numbers. `stage`: also what became of each break, without saying which one it is.
`names`: everything."""


class DisclosedBreak(msgspec.Struct, frozen=True, kw_only=True):
    """What may be shown of one break; everything else is unset."""

    break_: str | UnsetType = msgspec.field(name="break", default=UNSET)
    title: str | UnsetType = UNSET
    family: str | UnsetType = UNSET
    level: int | UnsetType = UNSET
    fate: Fate
    stage: Stage | None
    by: list[str]
    reached_by: list[str]
    path: Literal["swapped", "reloaded"] | UnsetType | None = UNSET
    seconds: float | UnsetType = UNSET
    file: str | UnsetType = UNSET
    line: int | UnsetType = UNSET
    points: float | UnsetType = UNSET
    max_points: float | UnsetType = UNSET


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """A suite's result as it may be shown. Schema 1: keys may be added, never renamed."""

    schema: int
    feedback: Feedback
    suite: list[str]
    engine: str
    root: str | UnsetType
    """The folder of the engine's files, relative to the current one if it is inside."""
    gradable: bool
    reason: str
    """Why there is no score."""
    tests: int
    breaks: list[DisclosedBreak] | UnsetType
    claims: dict[str, list[str]] | UnsetType
    seconds: float
    correct: list[CorrectEngine]
    flaky: list[str]
    left_out: list[str]
    """What was found in its folder and does not belong to the submission."""
    score: float | None
    """The share of the breaks that is killed, by weight, in percent."""
    killed: int
    of: int
    weighted: bool
    """Whether the breaks have weights that an instructor chose."""
    points: float | None
    max_points: float
    levels: dict[int, Score]
    families: dict[str, Score] | UnsetType


def disclose(
    report: SuiteReport,
    feedback: Feedback = "names",
    weights: Weights = EVEN,
    titles: Mapping[str, str] | None = None,
    root: Path | None = None,
    *,
    to_student: bool = False,
) -> Grade:
    """Return what may be shown of a result, and its score.

    Below `names`, nothing is left that tells which break is meant: not its family, nor where it is,
    nor its place in the order of the catalogue. Below `names` and `to_student`, no text is left
    that a run has chosen, by printing, raising or naming something. `titles` are the titles of
    the breaks, by id, and `root` is the folder of the engine's files.
    """
    if to_student or feedback != "names":
        report = _without_run_text(report)
    judged = scores(report.breaks, weights)
    reason = report.reason or ("" if judged.total.of else _nothing_to_judge(report.breaks))
    gradable = report.gradable and not reason
    all_names = feedback == "names"
    return Grade(
        schema=report.schema,
        feedback=feedback,
        suite=report.suite,
        engine=report.engine,
        root=_relative(root) if all_names and root is not None else UNSET,
        gradable=gradable,
        reason=reason,
        tests=report.tests,
        breaks=_shown(report.breaks, feedback, judged, weights, titles or {}),
        claims=report.claims if all_names else UNSET,
        seconds=report.seconds,
        correct=report.correct,
        flaky=report.flaky,
        left_out=report.left_out,
        score=judged.total.score if gradable else None,
        killed=judged.total.killed,
        of=judged.total.of,
        weighted=weights != EVEN,
        points=judged.total.points if gradable else None,
        max_points=weights.points,
        levels=judged.levels,
        families=judged.families if all_names else UNSET,
    )


def _without_run_text(report: SuiteReport) -> SuiteReport:
    """Return a result with names that occur in the submission, and reasons in our own words."""

    def names(tests: Iterable[str]) -> list[str]:
        return [report.shown.get(test, "a test") for test in tests]

    return replace(
        report,
        reason=(report.stated or WITHHELD) if report.reason else "",
        breaks=[
            replace(one, by=names(one.by), reached_by=names(one.reached_by), ended={})
            for one in report.breaks
        ],
        claims={},
        correct=[replace(one, failed=names(one.failed), messages=[]) for one in report.correct],
        flaky=names(report.flaky),
    )


def _relative(folder: Path) -> str:
    folder, current = folder.resolve(), Path.cwd()
    return str(folder.relative_to(current) if folder.is_relative_to(current) else folder)


def _nothing_to_judge(results: Sequence[BreakResult]) -> str:
    if any(result.fate != "does-not-apply" for result in results):
        return "all breaks that could be tried have the weight 0"
    return "no break has a site in this engine"


def _shown(
    results: Sequence[BreakResult],
    feedback: Feedback,
    judged: Scores,
    weights: Weights,
    titles: Mapping[str, str],
) -> list[DisclosedBreak] | UnsetType:
    match feedback:
        case "score":
            return UNSET
        case "stage":
            anonymous = [_anonymous(result) for result in counting(results, weights)]
            return sorted(anonymous, key=msgspec.json.encode)
        case "names":
            weighty = [result for result in results if weights.of(result) > 0]
            return [_named(result, judged, weights, titles) for result in weighty]


def _anonymous(result: BreakResult) -> DisclosedBreak:
    return DisclosedBreak(
        fate=result.fate, stage=result.stage, by=result.by, reached_by=result.reached_by
    )


def _named(
    result: BreakResult, judged: Scores, weights: Weights, titles: Mapping[str, str]
) -> DisclosedBreak:
    applies = result.fate != "does-not-apply"
    worth = round(weights.of(result) * judged.point, 6) if applies else 0.0
    return DisclosedBreak(
        break_=result.break_,
        title=titles.get(result.break_, UNSET),
        family=result.family,
        level=result.level,
        fate=result.fate,
        stage=result.stage,
        by=result.by,
        reached_by=result.reached_by,
        path=result.path,
        seconds=result.seconds,
        file=result.file,
        line=result.line,
        points=worth if result.fate == "killed" else 0.0,
        max_points=worth,
    )
