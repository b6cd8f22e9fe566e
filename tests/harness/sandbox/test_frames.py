"""Frames: malformed ones, and those with another ticket, are refused."""

import io

import pytest

from harness.sandbox.frames import (
    LARGEST_BODY,
    TICKET_SIZE,
    VERSION,
    Frame,
    decode_body,
    encode_frame,
    new_ticket,
    read_bodies,
)

TICKET = bytes(range(TICKET_SIZE))
BODY = bytes([VERSION]) + b"K" + TICKET + b"payload"


def test_a_frame_is_its_length_version_kind_ticket_and_payload() -> None:
    assert encode_frame(Frame(b"K", b"payload"), TICKET) == len(BODY).to_bytes(4, "big") + BODY
    assert decode_body(BODY, TICKET) == Frame(b"K", b"payload")


@pytest.mark.parametrize(
    "body",
    [b"", BODY[:1], BODY[: 1 + TICKET_SIZE], bytes([VERSION + 1]) + BODY[1:]],
    ids=["nothing", "no kind", "half a ticket", "another version"],
)
def test_a_malformed_body_is_refused(body: bytes) -> None:
    assert decode_body(body, TICKET) is None


def test_another_ticket_is_refused() -> None:
    assert decode_body(BODY, new_ticket()) is None


def test_bodies_are_read_up_to_the_first_that_is_cut_off_or_too_long() -> None:
    sound = (3).to_bytes(4, "big") + b"abc"
    for last, body in (
        ((9).to_bytes(4, "big") + b"short", b"short"),
        ((LARGEST_BODY + 1).to_bytes(4, "big") + b"long" + sound, b""),
    ):
        assert list(read_bodies(io.BytesIO(sound + last))) == [b"abc", body]
    assert list(read_bodies(io.BytesIO(sound + b"\0\0"))) == [b"abc"]
