"""What a learner did, as events: progress is the list of these events.

An event never changes. So two files of events can be merged, and equal events in both are the same
event.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec

from harness.core.vocabulary import Loss

PageName = Annotated[str, msgspec.Meta(pattern=r"\A[a-z0-9]+(-[a-z0-9]+)*\Z", max_length=200)]
LONGEST = 1000
"""Characters of a text."""

LARGEST_SEED = 2**53 - 1
"""Every program that reads JSON can represent it."""

Text = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f\x7f]*\Z", max_length=LONGEST)]
Phase = Literal["before", "after"]
"""Whether a question of the self-test is asked before the track or after it."""

PlaceFound = Literal["line", "function", "no"]
"""Whether an answer in a hunt names the changed line, only its function, or neither."""


def now() -> datetime:
    """Return the time of an event that happens now."""
    return datetime.now(UTC)


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Something that a learner did."""

    time: Annotated[datetime, msgspec.Meta(tz=True)] = msgspec.field(default_factory=now)


class Prediction(Event, frozen=True, kw_only=True, tag="prediction"):
    """A prediction, and what was observed.

    Without a loss, it is about a probe that computes its own loss, or about both losses. On a page
    with a recipe, `probe` is a metric of the training, and what is predicted is `lower`, `higher`
    and so on.
    """

    page: PageName
    probe: Text
    loss: Loss | None
    predicted: Text
    actual: Text
    right: bool
    question: Text = ""
    """The page's question that was answered; empty if an outcome was predicted."""


class Finished(Event, frozen=True, kw_only=True, tag="finished"):
    """A break whose report was read, or a myth."""

    page: PageName


class Attempt(Event, frozen=True, kw_only=True, tag="attempt"):
    """A file that was judged for an exercise."""

    exercise: PageName
    killed: bool


class Fix(Event, frozen=True, kw_only=True, tag="fix"):
    """A scratch copy of a break that was checked after something was changed in it."""

    page: PageName
    right: bool


class Hint(Event, frozen=True, kw_only=True, tag="hint"):
    """A hint that was shown; the steps count from 1."""

    exercise: PageName
    step: Annotated[int, msgspec.Meta(ge=1, le=100)]


class Draw(Event, frozen=True, kw_only=True, tag="draw"):
    """The pages whose questions the self-test asks: two of the same kind at each position."""

    before: tuple[PageName, ...]
    after: tuple[PageName, ...]


class TestAnswer(Event, frozen=True, kw_only=True, tag="answer"):
    """An answer in the self-test; `right` is None if the question was skipped."""

    __test__ = False  # for pytest, which would collect it

    phase: Phase
    page: PageName
    right: bool | None


class HuntKey(msgspec.Struct, frozen=True):
    """Which hunt it is; the bug follows from it, and is stored nowhere."""

    seed: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_SEED)]
    level: Annotated[int, msgspec.Meta(ge=1, le=3)]
    pool: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{12}\Z")]
    """A digest of the bugs that it may be about."""


class HuntBegun(Event, frozen=True, kw_only=True, tag="hunt"):
    """A hunt that was begun."""

    hunt: HuntKey


class ClueBought(Event, frozen=True, kw_only=True, tag="clue"):
    """A clue that was bought in a hunt, and its cost in forward passes."""

    hunt: HuntKey
    clue: Text
    passes: Annotated[float, msgspec.Meta(ge=0)]


class HuntAnswer(Event, frozen=True, kw_only=True, tag="hunt-answer"):
    """The answer that ended a hunt, and whether it was right."""

    hunt: HuntKey
    family: bool
    place: PlaceFound
    par: Annotated[float, msgspec.Meta(gt=0)]
    """The cost of the clues in `Pool.par`, in forward passes."""


AnyEvent = (
    Prediction
    | Finished
    | Attempt
    | Fix
    | Hint
    | Draw
    | TestAnswer
    | HuntBegun
    | ClueBought
    | HuntAnswer
)


def encode(event: AnyEvent) -> bytes:
    """Return the event as JSON; equal events give equal bytes."""
    return msgspec.json.encode(event)


def decode(text: bytes) -> AnyEvent | None:
    """Return the event in this JSON, or None if it is not an event."""
    try:
        event: AnyEvent = msgspec.json.decode(text, type=AnyEvent)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return event


def key_of(event: AnyEvent) -> bytes:
    """Return the digest by which an event is recognised."""
    return hashlib.blake2b(encode(event), digest_size=16).digest()
