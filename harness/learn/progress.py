"""What follows from the events: a learner's progress, place on the track, and next steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import msgspec

from harness.core.message import Message, message
from harness.core.vocabulary import OUTCOMES, Outcome, PageKind
from harness.learn.events import (
    AnyEvent,
    Attempt,
    Draw,
    Fix,
    Hint,
    PageFinished,
    PredictionMade,
    SelfTestPhase,
    TestAnswer,
)
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import Break
from harness.pages.page import Page

EventKind = TypeVar("EventKind", bound=AnyEvent)


PRIMER = "page-0"
"""The id of the page about the engine itself, which comes before the track."""

PRIMER_QUESTIONS = ("value", "rule", "gradient", "slip")
"""The names of its questions; a prediction has them as its probe."""


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
class LearnerProgress:
    """The events of a learner, by time, and what follows from them."""

    events: tuple[AnyEvent, ...] = ()

    def with_current_ids(self, catalogue: Catalogue) -> LearnerProgress:
        """Return the same progress; events about a page that was renamed have its current id."""
        return LearnerProgress(
            tuple(
                msgspec.structs.replace(event, page=catalogue.current_id(event.page))
                if isinstance(event, PredictionMade | PageFinished | Fix)
                else event
                for event in self.events
            )
        )

    @cached_property
    def done(self) -> frozenset[str]:
        """The ids of the pages that were read to the end, and of what was solved or repaired."""
        pages = {event.page for event in self._of(PageFinished)} | self.repaired
        return frozenset(pages | {event.exercise for event in self._of(Attempt) if event.killed})

    @cached_property
    def repaired(self) -> frozenset[str]:
        """The ids of the breaks that were repaired."""
        return frozenset(event.page for event in self._of(Fix) if event.right)

    @cached_property
    def predictions(self) -> tuple[PredictionMade, ...]:
        """The first prediction about each run, and the first answer to each question of a page.

        Someone who repeats a page knows the answers.
        """
        first: dict[tuple[str | None, ...], PredictionMade] = {}
        for event in self._of(PredictionMade):
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

    @property
    def primer(self) -> frozenset[str]:
        """The questions of page 0 that are answered."""
        answered = {event.probe for event in self.predictions if event.page == PRIMER}
        return frozenset(answered.intersection(PRIMER_QUESTIONS))

    # ----- The self-test -----

    @property
    def draw(self) -> Draw | None:
        """The questions of the self-test, once they are drawn; of two draws, the first counts."""
        return next(self._of(Draw), None)

    def unanswered(self, phase: SelfTestPhase) -> tuple[str, ...]:
        """Return the pages whose questions are still to be asked."""
        asked = {event.page for event in self._of(TestAnswer) if event.phase == phase}
        return tuple(page for page in self._drawn(phase) if page not in asked)

    def score(self, phase: SelfTestPhase) -> TestScore:
        """Return the result of one phase of the self-test."""
        pages = self._drawn(phase)
        answers: dict[str, bool | None] = {}
        for event in self._of(TestAnswer):
            if event.phase == phase and event.page in pages:
                answers.setdefault(event.page, event.right)
        given = [right for right in answers.values() if right is not None]
        return TestScore(len(pages), len(answers), len(given), sum(given))

    def _drawn(self, phase: SelfTestPhase) -> tuple[str, ...]:
        if self.draw is None:
            return ()
        return self.draw.before if phase == "before" else self.draw.after

    def _of(self, kind: type[EventKind]) -> Iterator[EventKind]:
        return (event for event in self.events if isinstance(event, kind))


def _calibrate(outcome: Outcome, predictions: Sequence[PredictionMade]) -> Calibration:
    events = [event for event in predictions if event.predicted == outcome]
    wrong = Counter(event.actual for event in events if not event.right)
    return Calibration(outcome, len(events), len(events) - wrong.total(), dict(wrong.most_common()))


# ----- On the track, and after it -----

DEEPER = 2
"""The level of the pages after the track."""


@dataclass(frozen=True)
class Misses:
    """The wrong predictions about the breaks of a family."""

    family: str
    wrong: int
    count: int


@dataclass(frozen=True)
class Way:
    """A learner on the track of a catalogue."""

    catalogue: Catalogue
    progress: LearnerProgress

    @property
    def track(self) -> tuple[str, ...]:
        """The ids of the pages on the track."""
        return tuple(self.catalogue.track)

    @property
    def done(self) -> int:
        """The number of pages of the track that are done."""
        return len(self.progress.done.intersection(self.track))

    @property
    def begins_with_primer(self) -> bool:
        """Whether page 0 is next: it was neither read nor skipped, and the track has not begun."""
        return not self.has_begun and PRIMER not in self.progress.done

    @property
    def has_begun(self) -> bool:
        """Whether more of the track is done than its first page, which the README begins with."""
        return self.next_id is None or not self.progress.done.isdisjoint(self.track[1:])

    @property
    def next_id(self) -> str | None:
        """The first page of the track that is not done; None at its end."""
        return next(self.after(None), None)

    def after(self, page_id: str | None) -> Iterator[str]:
        """Yield the pages of the track that follow a page and are not done; from the start if
        it is None."""
        start = 0 if page_id is None else self.track.index(page_id) + 1
        return (page for page in self.track[start:] if page not in self.progress.done)

    def with_done(self, page_id: str) -> Way:
        """Return the way once a page is done."""
        events = *self.progress.events, PageFinished(page=page_id)
        return replace(self, progress=LearnerProgress(events))

    @property
    def next_repair(self) -> str | None:
        """The first break on the track that has not been repaired; None at its end."""
        left = (page for page in self.track if page not in self.progress.repaired)
        fronts = ((page, self.catalogue.page(page).front) for page in left)
        return next((page for page, front in fronts if isinstance(front, Break)), None)

    @property
    def is_read(self) -> bool:
        """Whether nothing is left on the track but exercises."""
        kinds = {self.catalogue.page(page).front.kind for page in self.after(None)}
        return kinds <= {"exercise"}

    def number(self, page_id: str) -> int:
        """Return the position of a page on the track, from 1."""
        return self.track.index(page_id) + 1

    # ----- After the track -----

    @cached_property
    def misses(self) -> list[Misses]:
        """The families with wrong predictions, those with most of them first."""
        files = self.catalogue.files
        pages = {event.page for event in self.progress.predictions if event.page in files}
        families = {page: self.catalogue.page(page).front.family for page in pages}
        count, wrong = Counter[str](), Counter[str]()
        for event in self.progress.predictions:
            if family := families.get(event.page):
                count[family] += 1
                wrong[family] += not event.right
        order = sorted(wrong, key=lambda family: (-wrong[family], family))
        return [Misses(name, wrong[name], count[name]) for name in order if wrong[name]]

    def count(self, kind: PageKind) -> tuple[int, int]:
        """Return how many pages of a kind are done, and how many there are."""
        pages = [page.id for page in self.catalogue.pages[0] if page.front.kind == kind]
        return len(self.progress.done.intersection(pages)), len(pages)

    def todo(self, kind: PageKind, level: int | None = None) -> list[Page]:
        """Return the pages of a kind, and of a level, that are not done."""
        return [
            page
            for page in self.catalogue.pages[0]
            if page.front.kind == kind
            and level in (None, page.front.level)
            and page.id not in self.progress.done
        ]


# ----- Next steps -----

MOST_FAMILIES = 3
"""The number of families with wrong predictions to name."""


@dataclass(frozen=True)
class NextStep:
    """A command that a learner can run next, and what it is for."""

    command: str
    why: Message


def next_steps(way: Way) -> list[NextStep]:
    """Return the next page of the track and, once its breaks are read, what comes after it."""
    where = _continues_with(way)
    start = [NextStep("harness start", where)] if where else []
    return [*start, *(_after_the_track(way) if way.is_read else ())]


def first_step(way: Way) -> NextStep:
    """Return what `harness start` does next, to be named wherever a report or a command ends."""
    where = _continues_with(way) or message("what comes after the track")
    return NextStep("harness start", where)


def _continues_with(way: Way) -> Message | None:
    """Return the part of the track with which `harness start` continues; None after its end."""
    if way.begins_with_primer:
        return message("page 0: the engine, before it is broken")
    left = questions_left(way)
    if left and (way.next_id is None or not way.has_begun):
        one = message("1 question of the self-test")
        return one if left == 1 else message("{count} questions of the self-test", count=left)
    if way.next_id is None:
        return None
    return message(
        "page {number} of {total}: {page}",
        number=way.number(way.next_id),
        total=len(way.track),
        page=way.next_id,
    )


def questions_left(way: Way) -> int:
    """Return how many questions of the self-test are open; 0 if those before it were skipped.

    Before the track, these are the ones that are left after an interruption.
    """
    before = way.progress.score("before")
    if not before.answered:
        return 0
    if not way.has_begun:
        return len(way.progress.unanswered("before"))
    return len(way.progress.unanswered("after")) if way.is_read else 0


def _after_the_track(way: Way) -> Iterator[NextStep]:
    for family in way.misses[:MOST_FAMILIES]:
        why = message(
            "{wrong} of {count} predictions were wrong", wrong=family.wrong, count=family.count
        )
        yield NextStep(f"harness list --todo --family {family.family}", why)
    if deeper := len(way.todo("break", DEEPER)):
        why = message("{count} breaks of level {level}", count=deeper, level=DEEPER)
        yield NextStep(f"harness list --todo --kind break --level {DEEPER}", why)
    if exercises := len(way.todo("exercise")):
        why = message("{count} exercises to solve", count=exercises)
        yield NextStep("harness list --todo --kind exercise", why)
    if page := way.next_repair:
        yield NextStep(f"harness fix {page}", message("repair a bug in your own editor"))
    yield NextStep("harness hunt", message("find a hidden bug with as few clues as you can"))
    yield NextStep("harness doctor FILE.py:CLASS", message("look for bugs in your own engine"))
