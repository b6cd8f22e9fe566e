"""The state of a hunt, and its score, from the learner's events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime

from harness.core.message import Message, message, verbatim
from harness.learn.events import AnyEvent, ClueBought, HuntAnswer, HuntBegun, HuntKey

PER_DOUBLING = 10
"""The points that are lost each time the passes double the par."""


@dataclass(frozen=True)
class Hunt:
    """A hunt, what was bought in it, and the answer if it has ended."""

    key: HuntKey
    bought: dict[str, float]
    """The cost of each clue, in the order in which they were bought."""
    answer: HuntAnswer | None = None

    @property
    def passes(self) -> float:
        """The forward passes that were spent."""
        return math.fsum(self.bought.values())

    @property
    def is_solved(self) -> bool:
        """Whether the answer names the family, and the line or its function."""
        return self.answer is not None and self.answer.family and self.answer.place != "no"

    @property
    def score(self) -> int:
        """The points: 100, less 10 for each doubling of the par; half for the family alone."""
        if self.answer is None or not self.answer.family:
            return 0
        doublings = math.log2(max(self.passes / self.answer.par, 1.0))
        points = max(100 - PER_DOUBLING * doublings, 0.0)
        return round(points if self.is_solved else points / 2)


def hunts_in(events: Iterable[AnyEvent]) -> list[Hunt]:
    """Return the hunts in the order in which they were begun; the first answer to each counts."""
    hunts: dict[HuntKey, Hunt] = {}
    for event in events:
        match event:
            case HuntBegun(hunt=key):
                hunts.setdefault(key, Hunt(key, {}))
            case ClueBought(hunt=key, clue=clue, passes=passes):
                hunt = hunts.setdefault(key, Hunt(key, {}))
                if not hunt.answer:
                    hunts[key] = Hunt(key, {**hunt.bought, clue: hunt.bought.get(clue, passes)})
            case HuntAnswer(hunt=key):
                hunt = hunts.setdefault(key, Hunt(key, {}))
                hunts[key] = Hunt(key, hunt.bought, hunt.answer or event)
    return list(hunts.values())


def open_hunt(hunts: Sequence[Hunt], is_current: Callable[[HuntKey], bool]) -> Hunt | None:
    """Return the last hunt that was begun and has not ended, of those that are current."""
    going = (hunt for hunt in reversed(hunts) if not hunt.answer and is_current(hunt.key))
    return next(going, None)


# ----- In words -----


def seed_of(day: datetime) -> int:
    """Return the seed of a day: 20261122."""
    return int(f"{day:%Y%m%d}")


def label_of(seed: int) -> Message:
    """Return the name of a hunt: its day if the seed is a date, or else its seed."""
    with suppress(ValueError):
        if seed > 19700101:
            return verbatim(date.fromisoformat(str(seed)).isoformat())
    return message("seed {seed}", seed=seed)


def counted_clues(count: int) -> Message:
    """Return a number of clues."""
    return message("1 clue") if count == 1 else message("{count} clues", count=count)


def result_of(hunt: Hunt) -> Message:
    """Return how a hunt ended, in a word or two."""
    if hunt.answer is None:
        return message("not ended")
    if hunt.is_solved:
        return message("solved")
    return message("half solved") if hunt.answer.family else message("not solved")
