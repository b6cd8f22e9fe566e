"""The judge of trials, with runners that are tables."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from harness.grade.trial import MOST_TRIES, TrialVerdict, TrialVersion, judge

ROUNDS = 3


@dataclass
class Table:
    """A runner that looks its results up: a letter for the break and for the twin, by rewrite.

    `F` stands for a failure. All results are returned, or only the first.
    """

    results: dict[str, str]
    first: bool = False
    reload_at: int | None = None
    """The run from which on the code is loaded anew."""
    path: str = "swapped"
    runs: list[str] = field(default_factory=list)

    def tests(self) -> list[str]:
        return list(self.results)

    def failing(
        self, version: TrialVersion, number: int, tests: Sequence[str], until: str | None = None
    ) -> list[str]:
        self.runs.append(f"{version} {number}")
        if self.reload_at is not None and len(self.runs) > self.reload_at:
            self.path = "reloaded"
        column = number if version == "broken" else ROUNDS + number
        end = len(tests) if until is None else tests.index(until) + 1
        failing = [name for name in tests[:end] if self.results[name][column] == "F"]
        return failing[:1] if self.first else failing


def drawn(twin_first: bool) -> Random:
    """A generator whose first number decides that."""
    return next(Random(seed) for seed in range(99) if (Random(seed).random() < 0.25) == twin_first)


def judged(table: Table, *, twin_first: bool = False) -> TrialVerdict[str]:
    return judge(table, drawn(twin_first), lambda _: ROUNDS)


@pytest.mark.parametrize("twin_first", [False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    ("results", "killers", "recognising", "unsteady"),
    [
        ({"a": "......", "b": "......"}, [], [], []),
        ({"a": "......", "b": "FFF..."}, ["b"], [], []),
        ({"a": "FFFFFF"}, [], ["a"], []),
        ({"a": "FF....", "b": "......"}, [], [], ["a"]),
        ({"a": "FF....", "b": "FFF..."}, ["b"], [], ["a"]),
        ({"a": "FFFFFF", "b": "FFF..."}, ["b"], ["a"], []),
        ({"a": "FFF.F."}, [], ["a"], []),
        ({"a": "FFF..F", "b": "FFF..."}, ["b"], ["a"], []),
        ({}, [], [], []),
    ],
)
def test_a_test_kills_if_it_fails_under_every_rewrite_and_passes_on_the_twin(
    results: dict[str, str],
    killers: list[str],
    recognising: list[str],
    unsteady: list[str],
    first: bool,
    twin_first: bool,
) -> None:
    verdict = judged(Table(results, first), twin_first=twin_first)
    assert (verdict.killers, verdict.recognising) == (killers, recognising)
    assert verdict.unsteady == unsteady


def test_all_that_kill_are_named_if_all_are_run() -> None:
    results = {"a": "FFF...", "b": "...FFF", "c": "FFF..."}
    assert judged(Table(results)).killers == ["a", "c"]
    assert judged(Table(results, first=True)).killers == ["a"]


@pytest.mark.parametrize(
    ("twin_first", "runs"), [(False, ["broken 0"]), (True, ["twin 0", "broken 0"])]
)
def test_the_twin_of_a_break_that_survives_is_rarely_run(twin_first: bool, runs: list[str]) -> None:
    table = Table({"a": "......"})
    verdict = judged(table, twin_first=twin_first)
    assert (table.runs, verdict.twin_path) == (runs, "swapped" if twin_first else None)


def test_the_twin_is_run_again_if_the_break_is_loaded_in_another_way() -> None:
    table = Table({"a": "FFF..."}, first=True, reload_at=1)
    assert judged(table, twin_first=True).killers == ["a"]
    assert table.runs[:3] == ["twin 0", "broken 0", "twin 0"]


@pytest.mark.parametrize("first", [False, True])
def test_many_tests_that_lose_their_verdict_spoil_the_break_for_the_others(first: bool) -> None:
    """Of many guesses, one would be lucky."""
    guesses = {f"guess {number}": "F..FFF" for number in range(MOST_TRIES)}
    verdict = judged(Table({**guesses, "lucky": "FFF..."}, first))
    assert verdict.killers == []
    assert len(verdict.recognising) == MOST_TRIES


@dataclass
class Counting:
    """A test that knows nothing, and fails in every second run."""

    path: str = "swapped"
    runs: int = 0

    def tests(self) -> list[str]:
        return ["a"]

    def failing(
        self, version: TrialVersion, number: int, tests: Sequence[str], until: str | None = None
    ) -> list[str]:
        del version, number, until
        self.runs += 1
        return list(tests) if self.runs % 2 else []


def test_the_order_of_the_runs_says_nothing() -> None:
    """Otherwise a test could count the processes, and fail in those that must be breaks."""
    kills = sum(bool(judge(Counting(), Random(seed), lambda _: 8).killers) for seed in range(1000))
    assert kills < 20
    once = sum(bool(judge(Counting(), Random(seed), lambda _: 1).killers) for seed in range(1000))
    assert once > 500
