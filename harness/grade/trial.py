"""Trials: does a test fail because of what a break does, or because of how the code is written?

One judge for everything that is run on breaks. A break and its twin are run in random order, in
processes that cannot tell them apart. A test kills the break if, under every rewrite, it fails on
the break and passes on the twin. A test that fails on the twin recognises code. The runner decides
what a test is and how it is run: a suite has pytest tests, an exercise may also have probes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Generic, Literal, Protocol, TypeVar

Test = TypeVar("Test", bound=Hashable)
TrialVersion = Literal["broken", "twin"]

MOST_TRIES = 5
"""The number of tests that may lose their verdict on one break before it counts as recognised."""

TWIN_FIRST = 0.25
"""How often the twin is run before the break, so that the order of the runs says nothing."""


class TrialRunner(Protocol[Test]):
    """Runs tests on a break and on its twin."""

    @property
    def path(self) -> str:
        """How the code is put into the engine; it may change after a run."""

    def tests(self) -> Sequence[Test]:
        """Return the tests that may kill the break, in the order in which they are run."""

    def failing(
        self, version: TrialVersion, number: int, tests: Sequence[Test], until: Test | None = None
    ) -> Sequence[Test]:
        """Return tests that fail on a version under one of the rewrites: all, or only the first.

        Tests after `until` need not be run. The end of a process is not a failure.
        """


@dataclass
class TrialVerdict(Generic[Test]):
    """What became of a break, and of the tests that were run on it."""

    killers: list[Test] = field(default_factory=list)
    """The tests that kill it."""
    recognising: list[Test] = field(default_factory=list)
    """The tests that fail on its twin."""
    unsteady: list[Test] = field(default_factory=list)
    """The tests that fail on it under one rewrite and not under another."""
    twin_path: str | None = None
    """How the twin was run; None if it was not."""


def judge(
    runner: TrialRunner[Test], random: Random, rounds: Callable[[Sequence[Test]], int]
) -> TrialVerdict[Test]:
    """Run the tests until some kill the break, or none can any more.

    `rounds` returns the number of rewrites under which the tests must fail. A test that tosses a
    coin, such as a digest of the code, is right about all of them in one case of `4**rounds`. One
    that fails in every second run is right in one of `2**rounds`, and so is one that knows this
    function: the first run is usually on the break, the next on its twin, and the order of the two
    in each further round is random.
    """
    verdict: TrialVerdict[Test] = TrialVerdict()
    twin_first = random.random() < TWIN_FIRST
    while len(verdict.recognising) + len(verdict.unsteady) < MOST_TRIES:
        if not _left(runner, verdict):
            break
        if twin_first and _recognises(runner, verdict):
            continue
        suspects = list(runner.failing("broken", 0, _left(runner, verdict)))
        if not suspects:
            break
        twin_is_missing = not twin_first or verdict.twin_path != runner.path
        if twin_is_missing and _recognises(runner, verdict, until=suspects[-1]):
            continue
        caught = len(verdict.recognising)
        killers = suspects
        for number in range(1, rounds(suspects)):
            killers = _repeating(runner, verdict, killers, number, random)
        if len(verdict.recognising) > caught:
            continue
        verdict.unsteady += [test for test in suspects if test not in killers]
        if killers:
            verdict.killers = killers
            break
    return verdict


def _left(runner: TrialRunner[Test], verdict: TrialVerdict[Test]) -> list[Test]:
    lost = {*verdict.recognising, *verdict.unsteady}
    return [test for test in runner.tests() if test not in lost]


def _recognises(
    runner: TrialRunner[Test],
    verdict: TrialVerdict[Test],
    number: int = 0,
    until: Test | None = None,
) -> bool:
    """Whether tests fail on a twin; they do not count on this break any more."""
    caught = runner.failing("twin", number, _left(runner, verdict), until)
    verdict.twin_path = runner.path
    verdict.recognising += caught
    return bool(caught)


def _repeating(
    runner: TrialRunner[Test],
    verdict: TrialVerdict[Test],
    suspects: Sequence[Test],
    number: int,
    random: Random,
) -> list[Test]:
    """Return the tests that also kill the break under another rewrite."""
    repeating = list(suspects)
    for version in random.sample(("broken", "twin"), 2):
        if not repeating:
            break
        if version == "broken":
            failing = runner.failing("broken", number, _left(runner, verdict), repeating[-1])
            repeating = [test for test in repeating if test in failing]
        elif _recognises(runner, verdict, number, until=repeating[-1]):
            repeating = []
    return repeating
