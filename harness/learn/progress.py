"""A learner's progress, computed from the events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import msgspec

from harness.core.vocabulary import OUTCOMES, Outcome
from harness.learn.events import (
    AnyEvent,
    Attempt,
    Draw,
    Finished,
    Fix,
    Hint,
    Phase,
    Prediction,
    TestAnswer,
)

Kind = TypeVar("Kind", bound=AnyEvent)


class Calibration(msgspec.Struct, frozen=True):
    """How often a prediction was right: of those you called silent, how many were."""

    predicted: Outcome
    count: int
    right: int
    instead: dict[str, int]
    """What was observed instead, most frequent first."""


class TestScore(msgspec.Struct, frozen=True):
    """The result of the self-test in one phase; a skipped question is asked but not answered."""

    __test__ = False  # for pytest, which would collect it

    questions: int
    asked: int
    answered: int
    right: int


@dataclass(frozen=True)
class Progress:
    """The events of a learner, by time, and what follows from them."""

    events: tuple[AnyEvent, ...] = ()

    @cached_property
    def done(self) -> frozenset[str]:
        """The ids of the pages that were read to the end, and of what was solved or repaired."""
        pages = {event.page for event in self._of(Finished)} | self.repaired
        return frozenset(pages | {event.exercise for event in self._of(Attempt) if event.killed})

    @cached_property
    def repaired(self) -> frozenset[str]:
        """The ids of the breaks that were repaired."""
        return frozenset(event.page for event in self._of(Fix) if event.right)

    @cached_property
    def predictions(self) -> tuple[Prediction, ...]:
        """The first prediction about each run, and the first answer to each question of a page.

        Someone who repeats a page knows the answers.
        """
        first: dict[tuple[str | None, ...], Prediction] = {}
        for event in self._of(Prediction):
            first.setdefault((event.page, event.probe, event.loss, event.question), event)
        return tuple(first.values())

    @property
    def right(self) -> int:
        """The number of first predictions that were right."""
        return sum(event.right for event in self.predictions)

    @property
    def calibration(self) -> list[Calibration]:
        """One entry for each outcome that was predicted; other answers are not calibrated."""
        events = [event for event in self.predictions if not event.question]
        predicted = {event.predicted for event in events}
        return [_calibrate(word, events) for word in OUTCOMES if word in predicted]

    def failures(self, exercise: str) -> int:
        """Return the number of attempts at an exercise that did not solve it."""
        return sum(event.exercise == exercise and not event.killed for event in self._of(Attempt))

    def hints(self, exercise: str) -> int:
        """Return the last hint that was shown."""
        steps = (event.step for event in self._of(Hint) if event.exercise == exercise)
        return max(steps, default=0)

    # ----- The self-test -----

    @property
    def draw(self) -> Draw | None:
        """The questions of the self-test, once they are drawn; of two draws, the first counts."""
        return next(self._of(Draw), None)

    def unanswered(self, phase: Phase) -> tuple[str, ...]:
        """Return the pages whose questions are still to be asked."""
        asked = {event.page for event in self._of(TestAnswer) if event.phase == phase}
        return tuple(page for page in self._drawn(phase) if page not in asked)

    def score(self, phase: Phase) -> TestScore:
        """Return the result of one phase of the self-test."""
        pages = self._drawn(phase)
        answers: dict[str, bool | None] = {}
        for event in self._of(TestAnswer):
            if event.phase == phase and event.page in pages:
                answers.setdefault(event.page, event.right)
        given = [right for right in answers.values() if right is not None]
        return TestScore(len(pages), len(answers), len(given), sum(given))

    def _drawn(self, phase: Phase) -> tuple[str, ...]:
        if self.draw is None:
            return ()
        return self.draw.before if phase == "before" else self.draw.after

    def _of(self, kind: type[Kind]) -> Iterator[Kind]:
        return (event for event in self.events if isinstance(event, kind))


def _calibrate(outcome: Outcome, predictions: Sequence[Prediction]) -> Calibration:
    events = [event for event in predictions if event.predicted == outcome]
    wrong = Counter(event.actual for event in events if not event.right)
    return Calibration(outcome, len(events), len(events) - wrong.total(), dict(wrong.most_common()))
