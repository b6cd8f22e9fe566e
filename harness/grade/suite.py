"""The result of a test suite on the breaks of the catalogue."""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.core.vocabulary import Stage

Fate = Literal["killed", "survived", "not-reached", "recognised", "does-not-apply"]
"""What became of a break: a test fails because of it; all tests that reach it pass; no test reaches
it; only tests fail that also fail on correct code with other text; it has no site in this
engine."""


class BreakResult(msgspec.Struct, frozen=True):
    """What became of one break."""

    break_: str = msgspec.field(name="break")
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


class SuiteReport(msgspec.Struct, frozen=True):
    """Schema 1: keys may be added, never renamed."""

    schema: int
    suite: list[str]
    """The arguments that name the tests."""
    engine: str
    gradable: bool
    """Whether the tests pass without a break."""
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
    """The tests whose results on the clean engine are not always the same; they do not count."""

    stated: str = ""
    """The reason as a student may read it: without text that a run has chosen."""
    shown: dict[str, str] = {}
    """The names of tests as a student may read them, by their ids."""
    left_out: list[str] = []
    """What was found in its folder and does not belong to the submission."""

    @property
    def killed(self) -> int:
        """The number of breaks that a test notices."""
        return sum(result.fate == "killed" for result in self.breaks)

    @property
    def of(self) -> int:
        """The number of breaks that have a site in the engine."""
        return sum(result.fate != "does-not-apply" for result in self.breaks)

    @property
    def score(self) -> float | None:
        """The share of the breaks that are killed, in percent; None without breaks."""
        return round(100 * self.killed / self.of, 1) if self.of else None
