"""What may be shown of a suite's result, and what a student may read of it.

A run can put anything that it has read into a message, or into the name of a test or of an
exception type. So text of a run is wrapped in `Said`, together with what a student reads instead.
That is made only from the submitted files, a fixed list of exceptions, and numbers.

`disclose` is the only place that decides what a level of feedback shows: the formats see a `Grade`
and never the whole result.
"""

from __future__ import annotations

import builtins
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from harness.core.message import visible
from harness.core.vocabulary import Stage
from harness.grade.files import Said, SubmittedFiles
from harness.grade.protocol import MOST_TESTS, Collected, Raised
from harness.grade.styles import Style
from harness.grade.suite import (
    EVEN,
    BaselineState,
    BreakResult,
    CopiedCode,
    CorrectEngine,
    Fate,
    Reason,
    RuleChange,
    Score,
    Scores,
    SuiteReport,
    UncountedResult,
    Weights,
    counting,
    scores,
)

EXCEPTIONS = {
    name
    for name, item in vars(builtins).items()
    if isinstance(item, type) and issubclass(item, BaseException)
} | {"Failed", "Exit", "LinAlgError", "AxisError", "FlakyFailure", "Unsatisfiable"}
"""The exceptions that are named to students: those of Python, NumPy, pytest and Hypothesis."""

OTHER_EXCEPTION = "an exception of another type"
ENDED = "it ended its process, or reached a limit of time, memory or processes"
WITHHELD = "your instructor can see the reason"
"""What a student reads in place of other text."""

_BESIDE = " (a file is graded without those beside it: grade its folder instead)"

_MOST_SCOPES = 2
"""A test and its class; a longer path of known names could spell anything."""


class SubmissionWords:
    """The words in the Python files of a submission: written by its author, not by a run."""

    def __init__(self, submitted: SubmittedFiles) -> None:
        self.files, self.beside = submitted.files, submitted.beside

    @cached_property
    def _words(self) -> frozenset[str]:
        texts = (data.decode(errors="replace") for f, data in self.files.items() if f[-3:] == ".py")
        return frozenset(
            word
            for text in texts
            # Python compares identifiers in this form.
            for dotted in re.findall(r"[\w.]+", unicodedata.normalize("NFKC", text))
            for word in (dotted, *dotted.split("."))
        )

    def has(self, name: str) -> bool:
        """Whether a name, such as `helpers.sums`, occurs in the files as a whole.

        A name made of several words that occur could spell anything.
        """
        return name in self._words

    def names(self, tests: Sequence[str]) -> list[str]:
        """Return the name of each test as a student may read it.

        `tests` are their ids. A name that occurs in the files is kept, with that of its class.
        Parameters are created at run time, so a number replaces them: `test_sub[2]`. A test with
        any other name is `test number 7`.
        """
        counts: Counter[str] = Counter()
        names = []
        for number, test in enumerate(tests, 1):
            file, _, inside = test.partition("::")  # a folder may be called `a[1]`
            static, bracket, _ = inside.partition("[")
            scopes = static.split("::")
            known = file in self.files and 1 <= len(scopes) <= _MOST_SCOPES
            if not known or not all(map(self.has, scopes)):
                names.append(f"test number {number}")
                continue
            name = f"{file}::{static}"
            counts[name] += 1
            names.append(visible(f"{name}[{counts[name]}]" if bracket else name))
        return names

    def raised(self, raised: Raised) -> Said:
        """Return how a test or an import has failed."""
        shown = raised.type if raised.type in EXCEPTIONS else OTHER_EXCEPTION
        if raised.name and self.has(raised.name):
            if raised.type == "ModuleNotFoundError":
                shown = f"{shown}: No module named '{raised.name}'"
            elif raised.type == "FixtureLookupError":
                shown = f"fixture '{raised.name}' not found"
        hint = self._hint(raised)
        return Said(raised.text + hint, shown + hint)

    def _hint(self, raised: Raised) -> str:
        known = self.has(raised.name)
        if raised.type == "ModuleNotFoundError" and known and raised.name in self.beside:
            return _BESIDE
        missing = raised.type == "FixtureLookupError" and known
        return _BESIDE if missing and "conftest" in self.beside else ""

    def collection(self, collected: Collected) -> Said:
        """Return the reason why a suite has no tests."""
        match collected.kind:
            case "empty":
                return Said(collected.problem, "it has no tests")
            case "many":
                return Said(collected.problem, f"it has more than {MOST_TESTS} tests")
            case "raised":
                how = self.raised(collected.raised).shown
                what = visible(collected.file) if collected.file in self.files else "it"
                text = collected.problem + self._hint(collected.raised)
                return Said(text, f"{what} cannot be imported: {how}")
            case _:
                return Said(collected.problem, f"its tests cannot be collected: {ENDED}")


# ----- What a level of feedback shows -----

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
    change: RuleChange | UnsetType = UNSET
    """What a mutant of a rule changes."""
    timed_out: bool | UnsetType = UNSET
    """Whether it counts as killed because the tests did not end in time."""
    reason: Reason | UnsetType = UNSET
    """Why it survives."""
    baseline: BaselineState | UnsetType = UNSET
    """What the user's baseline says of it, if it is not killed."""
    justification: str | UnsetType = UNSET
    """Why it is equivalent, as the baseline says."""

    @property
    def is_accepted(self) -> bool:
        """Whether it is in the user's baseline."""
        return self.baseline in ("accepted", "equivalent")


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
    excluded: list[str]
    """The tests that fail on a correct engine."""
    partial: bool
    """Whether the others are graded without them."""
    cost: float
    """What the excluded tests cost, in percent of the score without that; 0 unless `partial`."""
    uncounted: dict[str, UncountedResult]
    """The tests that neither pass nor fail, and what they do instead."""
    uncalled: list[str] | UnsetType
    """The public functions of the engine that no test calls."""
    left_out: list[str]
    """What was found in its folder and does not belong to the submission."""
    refused: dict[str, list[str]] | UnsetType
    """How tests tried to look at the engine's code, by test; for instructors."""
    copied: CopiedCode | UnsetType
    """What the submission has copied from the engine; for instructors."""
    styles: list[Style] | UnsetType
    """The styles of its tests; for instructors."""
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
    partial: bool = False,
) -> Grade:
    """Return what may be shown of a result, and its score.

    With `partial`, tests that fail on a correct engine do not make the suite "not gradable", but
    lower its score, if there are others.

    Below `names`, nothing identifies a break: neither its family, nor its place in the engine, nor
    its position in the catalogue. Below `names`, or with `to_student`, no text is left that a run
    has chosen, by printing, raising or naming something. `titles` are the titles of the breaks, by
    id, and `root` is the folder of the engine's files.
    """
    if to_student or feedback != "names":
        report = _without_run_text(report)
    partial = partial and report.graded_in_part
    if not report.gradable and not partial:
        report = replace(report, breaks=[])
    judged = scores(report.breaks, weights)
    reason = "" if partial else report.reason
    if not reason and not judged.total.of:
        reason = _nothing_to_judge(report.breaks)
    gradable = (report.gradable or partial) and not reason
    cost = report.cost if partial and gradable else 0.0
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
        excluded=report.excluded,
        partial=partial and gradable,
        cost=cost,
        uncounted=report.uncounted,
        uncalled=report.uncalled if feedback != "score" else UNSET,
        left_out=report.left_out,
        refused=report.refused if all_names and not to_student else UNSET,
        copied=report.copied if all_names and not to_student else UNSET,
        styles=report.styles if all_names and not to_student else UNSET,
        score=_reduced(judged.total.score, cost, 1) if gradable else None,
        killed=judged.total.killed,
        of=judged.total.of,
        weighted=weights != EVEN,
        points=_reduced(judged.total.points, cost, 6) if gradable else None,
        max_points=weights.points,
        levels=judged.levels,
        families=judged.families if all_names else UNSET,
    )


def _reduced(number: float | None, cost: float, digits: int) -> float | None:
    return None if number is None else round(number * (1 - cost / 100), digits)


def _without_run_text(report: SuiteReport) -> SuiteReport:
    """Return a result with names that occur in the submission, and reasons in our own words."""

    def names(tests: Iterable[str]) -> list[str]:
        return [report.shown.get(test, "a test") for test in tests]

    return replace(
        report,
        reason=(report.stated or WITHHELD) if report.reason else "",
        breaks=[
            replace(
                one,
                by=names(one.by),
                reached_by=names(one.reached_by),
                ended={},
                reason=one.reason and _with_test(one.reason, report.shown),
            )
            for one in report.breaks
        ],
        claims={},
        correct=[replace(one, failed=names(one.failed), messages=[]) for one in report.correct],
        flaky=names(report.flaky),
        excluded=names(report.excluded),
        uncounted=dict(zip(names(report.uncounted), report.uncounted.values(), strict=True)),
    )


def _with_test(reason: Reason, shown: Mapping[str, str]) -> Reason:
    return replace(reason, test=shown.get(reason.test, "a test") if reason.test else "")


def _without_arguments(reason: Reason) -> Reason:
    """Return a reason that names no variable of the engine."""
    hidden = (replace(one, argument=None) if one.argument else one for one in reason.common)
    return replace(reason, common=list(dict.fromkeys(hidden)))


def _relative(folder: Path) -> str:
    folder, current = folder.resolve(), Path.cwd()
    return str(folder.relative_to(current) if folder.is_relative_to(current) else folder)


def _nothing_to_judge(results: Sequence[BreakResult]) -> str:
    if any(result.baseline == "equivalent" for result in results):
        return "the baseline says that all that could be tried is equivalent"
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
        fate=result.fate,
        stage=result.stage,
        by=result.by,
        reached_by=result.reached_by,
        reason=_without_arguments(result.reason) if result.reason else UNSET,
    )


def _named(
    result: BreakResult, judged: Scores, weights: Weights, titles: Mapping[str, str]
) -> DisclosedBreak:
    worth = round(weights.of(result) * judged.point, 6) if result.counts else 0.0
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
        change=result.change or UNSET,
        timed_out=result.timed_out or UNSET,
        baseline=result.baseline or UNSET,
        justification=result.justification or UNSET,
        reason=result.reason or UNSET,
    )
