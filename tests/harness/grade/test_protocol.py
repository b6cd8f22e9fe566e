"""What arrives from a confined process is decoded strictly: a suite may have written it."""

import math

import msgspec
import pytest

from harness.core.run import Digest
from harness.grade.protocol import (
    Ended,
    Raised,
    Refused,
    TestEvent,
    decode_reply,
    encode_event,
    split_events,
)

EVENTS: list[TestEvent] = [
    Ended(0, "passed", 0.5, Raised(), [1, -1], {"0 value": Digest(7, 0.5)}),
    Ended(1, "failed", 0.0, Raised("AssertionError: no", "AssertionError")),
    Refused(),
]
DATA = b"".join(map(encode_event, EVENTS))


def test_events_arrive_as_they_were_sent() -> None:
    assert split_events(DATA) == (EVENTS, b"")


def test_an_event_that_is_cut_waits_for_the_rest() -> None:
    for length in range(len(DATA)):
        events, rest = split_events(DATA[:length])
        assert split_events(rest + DATA[length:]) == (EVENTS[len(events) :], b"")


@pytest.mark.parametrize(
    "forged",
    [
        {"type": "ended", "test": 0, "result": "killed", "seconds": 0.0},
        {"type": "ended", "test": "0", "result": "failed", "seconds": 0.0},
        {"type": "ended", "test": 0, "result": "failed", "seconds": -1.0},
        {"type": "ended", "test": 0, "result": "failed", "seconds": math.inf},
        {"type": "ended", "test": 0, "result": "failed", "seconds": math.nan},
        {
            "type": "ended",
            "test": 0,
            "result": "failed",
            "seconds": 0.0,
            "raised": {"text": "x" * 301},
        },
        {"type": "other"},
        [],
    ],
)
def test_what_is_not_an_event_ends_the_events(forged: object) -> None:
    data = msgspec.msgpack.encode(forged)
    whole = encode_event(EVENTS[0]) + len(data).to_bytes(4, "big") + data + encode_event(EVENTS[1])
    events, rest = split_events(whole)
    assert events == EVENTS[:1]
    assert rest


def test_a_reply_that_is_not_one_is_refused() -> None:
    assert decode_reply(b"\xc1") is None
    assert decode_reply(msgspec.msgpack.encode({"type": "collected", "tests": [1]})) is None
