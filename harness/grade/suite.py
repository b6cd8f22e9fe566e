"""The result of a test suite on the breaks of the catalogue, and its score.

The score is the share of the breaks that it kills, weighted as the instructor says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from harness.core.errors import UsageError, as_message
from harness.core.message import message
from harness.core.vocabulary import Stage, Variation
from harness.grade.styles import Style
from harness.pages.catalogue import nearest
from harness.pages.front_matter import Break
from harness.pages.page import Page, read_toml
from harness.runs.facts import PropertyKind

Fate = Literal["killed", "survived", "not-reached", "recognised", "does-not-apply"]
"""What became of a break: a test fails because of it; all tests that reach it pass; no test reaches
it; only tests fail that also fail on correct code with other text; it has no site in this
engine."""

BaselineState = Literal["new", "accepted", "equivalent"]
"""Whether something that is not killed is in the baseline, and there said to be equivalent."""

UncountedResult = Literal["skipped", "xfailed", "xpassed"]
"""The result of a test that neither passes nor fails."""


class RuleChange(msgspec.Struct, frozen=True):
    """The change of one site in a user's own backward rule: see `harness.rules`."""

    operator: str
    rule: str
    form: str
    function: str
    before: str
    """The code of the site, and what replaces it."""
    after: str
    write: str
    """The test to write if it survives."""


ReasonKind = Literal["assertion", "inputs", "same", "not-measured"]
"""No assertion looks at a wrong number; the inputs hide it; the numbers are right in every call,
and nothing in the inputs explains it; it was not measured."""


class CallProperty(msgspec.Struct, frozen=True):
    """A property that the arguments of all calls share."""

    kind: PropertyKind
    argument: str | None = ""
    """The argument that has it, or the two (`a, b`) that are equal; empty if all of them have it,
    None if it is hidden."""


class Reason(msgspec.Struct, frozen=True):
    """Why a mutant survives, measured at the boundary of the changed functions."""

    kind: ReasonKind
    calls: int = 0
    """The number of calls in which old and new code ran on the same arguments."""
    more: bool = False
    """Whether there were more calls, which were not measured."""
    test: str = ""
    """The test in which the first wrong number is, and the number of the call there."""
    call: int = 0
    common: list[CallProperty] = []
    """What all calls have in common, the most telling property first."""
    reveals: list[Variation] = []
    """In which ways other arguments would show a wrong number; see `harness.runs.variations`."""


class BreakResult(msgspec.Struct, frozen=True):
    """What became of one break, or of one mutant of a rule."""

    break_: str = msgspec.field(name="break")
    """Its id; that of a mutant is `operator@Rule.function:line`."""
    family: str
    level: int
    fate: Fate
    by: list[str]
    """The tests that fail on it; only the first unless all were run."""
    reached_by: list[str]
    """The tests that call a changed function; empty if they are not known."""
    path: Literal["swapped", "reloaded"] | None
    """How the break was put into the engine; None if nothing was run."""
    seconds: float
    file: str = ""
    """Where the break is put, with its line."""
    line: int = 0
    stage: Stage | None = None
    """How far the fault got in the tests that reach it; None if that was not examined."""
    ended: dict[str, str] = {}
    """The tests that ended their process, or did not end, and how; that is not a kill."""
    change: RuleChange | None = None
    """What a mutant of a rule changes; None for a break."""
    timed_out: bool = False
    """Whether it counts as killed because the tests did not end in time."""
    reason: Reason | None = None
    """Why it survives; None if it does not, or if that was not examined."""
    baseline: BaselineState | None = None
    """What the baseline says of it; None if it is killed, or if there is no baseline."""
    justification: str = ""
    """Why it is equivalent, as its author says."""

    @property
    def counts(self) -> bool:
        """Whether it counts in the score: it has a site, and is not set aside as equivalent."""
        return self.fate != "does-not-apply" and self.baseline != "equivalent"


class CorrectEngine(msgspec.Struct, frozen=True):
    """What the tests find on a correct engine."""

    engine: str
    """`minigrad`, or the id of a variant."""
    passed: int
    failed: list[str]
    """The tests that fail there."""
    note: str = ""
    """What this engine does differently, if a test fails there."""
    messages: list[str] = []
    """How the tests in `failed` fail, in the same order; empty if that is not shown."""


class CopiedCode(msgspec.Struct, frozen=True):
    """How much of a submission is a copy of the engine; see `harness.grade.copying`."""

    share: float = 0.0
    """The share of the syntax in its functions."""
    functions: list[str] = []
    """The copies, each by its file and name."""
    tests: list[str] = []
    """The names of the tests that use a copy."""


class SuiteReport(msgspec.Struct, frozen=True):
    """Schema 1: keys may be added, never renamed."""

    schema: int
    suite: list[str]
    """The arguments that name the tests."""
    engine: str
    gradable: bool
    """Whether all tests pass on the correct engines."""
    reason: str
    """Why the suite cannot be graded."""
    tests: int
    """The number of tests that passed without a break, and were run on breaks."""
    breaks: list[BreakResult]
    claims: dict[str, list[str]]
    """The breaks that a test claims to kill and does not, by test."""
    seconds: float
    correct: list[CorrectEngine] = []
    """The correct engines that the tests were run on first."""
    flaky: list[str] = []
    """The tests whose results on correct code are not always the same; they do not count."""
    excluded: list[str] = []
    """The tests that fail on a correct engine. If others remain, `breaks` holds their results."""
    cost: float = 0.0
    """The share of the tests that are excluded, in percent."""
    uncounted: dict[str, UncountedResult] = {}
    """The tests that cannot kill, since they neither pass nor fail, with their results."""
    uncalled: list[str] = []
    """The public functions of the engine that no test calls."""
    stated: str = ""
    """The reason as a student may read it: without text that a run has chosen."""
    shown: dict[str, str] = {}
    """The names of tests as a student may read them, by their ids."""
    left_out: list[str] = []
    """What was found in its folder and does not belong to the submission."""
    refused: dict[str, list[str]] = {}
    """How tests tried to look at the engine's code, by their ids; "" is for their import."""
    copied: CopiedCode = CopiedCode()
    styles: list[Style] = []
    """The styles of its tests; empty if they were not examined."""

    @property
    def graded_in_part(self) -> bool:
        """Whether breaks were tried without the tests that fail on a correct engine."""
        return bool(self.excluded and self.breaks)

    @property
    def killed(self) -> int:
        """The number of breaks that a test notices."""
        return sum(result.fate == "killed" for result in self.breaks)

    @property
    def of(self) -> int:
        """The number of breaks that count."""
        return sum(result.counts for result in self.breaks)

    @property
    def score(self) -> float | None:
        """The share of the breaks that are killed, in percent; None without breaks."""
        return round(100 * self.killed / self.of, 1) if self.of else None


# ----- The score -----

_GroupName = TypeVar("_GroupName", int, str)

Weight = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Points = Annotated[float, msgspec.Meta(ge=0.1, le=1e6)]


class Weights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much each break counts: what a file of weights states.

    A break's weight is that given for its id, else for its family, else for its level, else 1. A
    break of weight 0 is left out.
    """

    points: Points = 100.0
    """The points of a suite that kills every break."""
    breaks: dict[str, Weight] = {}
    families: dict[str, Weight] = {}
    levels: dict[int, Weight] = {}

    def of(self, result: BreakResult) -> float:
        """Return the weight of a break."""
        return self.of_break(result.break_, result.family, result.level)

    def of_break(self, name: str, family: str, level: int) -> float:
        """Return the weight of a break with that id, in that family and at that level."""
        general = self.families.get(family, self.levels.get(level, 1.0))
        return self.breaks.get(name, general)

    def require_some(self, pages: Iterable[Page]) -> None:
        """Raise UsageError if all these breaks have the weight 0."""
        fronts = [page.front for page in pages]
        if not any(self.of_break(front.id, front.family, front.level) for front in fronts):
            raise UsageError(
                "all selected breaks have the weight 0",
                "select others, or give one of them another weight",
            )


EVEN = Weights()
"""Every break counts the same."""


class Score(msgspec.Struct, frozen=True):
    """How many breaks of a group are killed, and what they are worth."""

    killed: int
    of: int
    score: float | None
    """The killed breaks' share of the total weight, in percent; None without breaks."""
    points: float
    max_points: float


class Scores(msgspec.Struct, frozen=True):
    """The score of a suite: in total, by level and by family."""

    total: Score
    levels: dict[int, Score]
    families: dict[str, Score]
    point: float
    """The points of a break of weight 1."""


def counting(results: Iterable[BreakResult], weights: Weights) -> list[BreakResult]:
    """Return the breaks that count and have a weight."""
    return [result for result in results if result.counts and weights.of(result) > 0]


def scores(results: Iterable[BreakResult], weights: Weights = EVEN) -> Scores:
    """Return the score of the breaks that count."""
    judged = counting(results, weights)
    total = sum(weights.of(result) for result in judged)
    point = weights.points / total if total else 0.0
    return Scores(
        _score(judged, weights, point),
        _by(attrgetter("level"), judged, weights, point),
        _by(attrgetter("family"), judged, weights, point),
        point,
    )


def _by(
    key: Callable[[BreakResult], _GroupName],
    results: list[BreakResult],
    weights: Weights,
    point: float,
) -> dict[_GroupName, Score]:
    groups: dict[_GroupName, list[BreakResult]] = {}
    for result in sorted(results, key=key):
        groups.setdefault(key(result), []).append(result)
    return {name: _score(group, weights, point) for name, group in groups.items()}


def _score(results: list[BreakResult], weights: Weights, point: float) -> Score:
    killed = [result for result in results if result.fate == "killed"]
    earned = sum(weights.of(result) for result in killed)
    possible = sum(weights.of(result) for result in results)
    return Score(
        len(killed),
        len(results),
        round(100 * earned / possible, 1) if possible else None,
        round(earned * point, 6),
        round(possible * point, 6),
    )


def read_weights(file: Path, pages: Iterable[Page]) -> Weights:
    """Return the weights in a TOML file.

    Raises PageError for a file that is not one of weights, and UsageError for a name that none of
    the breaks among the pages has.
    """
    remedy = "write `points = NUMBER` and tables [breaks], [families], [levels] of `name = NUMBER`"
    weights = read_toml(file, Weights, "it is not a valid weights file", remedy)
    fronts = [page.front for page in pages if isinstance(page.front, Break)]
    _require_known(file, "break", weights.breaks, {front.id for front in fronts})
    _require_known(file, "family", weights.families, {front.family for front in fronts})
    _require_known(file, "level", map(str, weights.levels), {str(front.level) for front in fronts})
    return weights


def _require_known(file: Path, kind: str, names: Iterable[str], known: set[str]) -> None:
    for name in names:
        if name not in known:
            problem = message(
                "{file}: no {kind} is called `{name}`", file=file, kind=as_message(kind), name=name
            )
            remedy = message(
                "{question}`harness list` shows the breaks with their families and levels",
                question=nearest(name, known),
            )
            raise UsageError(problem, remedy)
