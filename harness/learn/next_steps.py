"""What a learner can do next, as commands with reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.core.message import Message, message
from harness.learn.track import DEEPER, Way

MOST_FAMILIES = 3
"""The number of families with wrong predictions to name."""


@dataclass(frozen=True)
class Step:
    """A command, and what it is for."""

    command: str
    why: Message


def next_steps(way: Way) -> list[Step]:
    """Return the next page of the track and, once its breaks are read, what comes after it."""
    return [*_on_the_track(way), *(_after_the_track(way) if way.is_read else ())]


def _on_the_track(way: Way) -> Iterator[Step]:
    if page := way.next_id:
        where = message(
            "page {number} of {total}: {page}",
            number=way.number(page),
            total=len(way.track),
            page=page,
        )
        yield Step("harness start", where)
    elif left := questions_left(way):
        yield Step("harness start", message("{count} questions of the self-test", count=left))


def questions_left(way: Way) -> int:
    """Return how many questions after the track are open; 0 if those before it were skipped."""
    before = way.progress.score("before")
    return len(way.progress.unanswered("after")) if before.answered and way.is_read else 0


def _after_the_track(way: Way) -> Iterator[Step]:
    for family in way.misses[:MOST_FAMILIES]:
        why = message(
            "{wrong} of {count} predictions were wrong", wrong=family.wrong, count=family.count
        )
        yield Step(f"harness list --todo --family {family.family}", why)
    if deeper := len(way.todo("break", DEEPER)):
        why = message("{count} breaks of level {level}", count=deeper, level=DEEPER)
        yield Step(f"harness list --todo --kind break --level {DEEPER}", why)
    if exercises := len(way.todo("exercise")):
        why = message("{count} exercises to solve", count=exercises)
        yield Step("harness list --todo --kind exercise", why)
    if page := way.next_repair:
        yield Step(f"harness fix {page}", message("repair a bug in your own editor"))
    yield Step("harness hunt", message("find a hidden bug with as few clues as you can"))
    yield Step("harness doctor FILE.py:CLASS", message("look for bugs in your own engine"))
