"""What processes exchange: frames from a child, and orders to a child or a host.

A frame is four bytes of length (big-endian) and a body: a byte for the version, a byte for the
kind, the ticket, and the payload. The main process sends a new random ticket with every request,
and refuses frames with any other ticket, so nothing written before its request is accepted.
"""

from __future__ import annotations

import contextlib
import os
import select
import struct
import time
from collections.abc import Iterator
from typing import IO, NamedTuple

import msgspec

from harness.sandbox.limits import Limits

_write = os.write  # code under test may replace the name in the module

VERSION = 3
"""The version of this layout."""

LARGEST_BODY = 64 * 1024 * 1024
"""Bytes; a frame that announces more is refused before it is read."""

TICKET_SIZE = 8
"""Bytes."""

_HEAD = 2 + TICKET_SIZE

LARGEST_PAYLOAD = LARGEST_BODY - _HEAD
"""Bytes."""


class Frame(NamedTuple):
    """What a frame carries."""

    kind: bytes
    """A single byte, whose meaning is up to the caller."""
    payload: bytes


def new_ticket() -> bytes:
    """Return a random ticket."""
    return os.urandom(TICKET_SIZE)


def encode_frame(frame: Frame, ticket: bytes) -> bytes:
    """Return the bytes of a frame, its length included."""
    length = _HEAD + len(frame.payload)
    return b"".join(
        [length.to_bytes(4, "big"), bytes([VERSION]), frame.kind, ticket, frame.payload]
    )


def decode_body(body: bytes, ticket: bytes) -> Frame | None:
    """Return the frame with this body; None if it is malformed or has another ticket."""
    if len(body) < _HEAD or body[0] != VERSION or body[2:_HEAD] != ticket:
        return None
    return Frame(body[1:2], body[_HEAD:])


def write_frame(descriptor: int, frame: Frame, ticket: bytes) -> None:
    """Write a frame to a pipe, a short one atomically: forked processes may share the pipe."""
    write_all(descriptor, encode_frame(frame, ticket))


def read_bodies(pipe: IO[bytes]) -> Iterator[bytes]:
    """Yield the bodies of the frames in a pipe, up to the first one that is too long or cut off.

    That one is the last to be yielded, with fewer bytes than announced.
    """
    while len(head := pipe.read(4)) == 4:
        length = int.from_bytes(head, "big")
        body = pipe.read(length) if length <= LARGEST_BODY else b""
        yield body
        if len(body) != length:
            return


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of the data, in as many pieces as the pipe takes."""
    view = memoryview(data)
    while view:
        view = view[_write(descriptor, view) :]


def write_within(descriptor: int, data: bytes, seconds: float) -> bool:
    """Write all of the data to a pipe; return whether the reader took it in time."""
    os.set_blocking(descriptor, False)
    view, end = memoryview(data), time.monotonic() + seconds
    while view:
        if not select.select([], [descriptor], [], max(0.0, end - time.monotonic()))[1]:
            return False
        with contextlib.suppress(BlockingIOError):
            view = view[os.write(descriptor, view) :]
    return True


# ----- Orders -----


class Pipes(NamedTuple):
    """The child's ends of its pipes, as file descriptors."""

    tickets: int
    frames: int
    output: int
    """Receives what the child prints."""


class InterpreterOrder(msgspec.Struct, frozen=True):
    """What a fresh interpreter has to do."""

    function: str
    """`module:function`, which takes the data and a `Line` and returns an iterator of frames."""
    data: bytes
    limits: Limits


class HostOrder(msgspec.Struct, frozen=True):
    """The first message to a host: what to import, and how to confine itself."""

    function: str
    """`module:function`, which takes the arguments and returns a `harness.sandbox.host.Prepare`."""
    arguments: tuple[str, ...]
    limits: Limits


class TaskOrder(msgspec.Struct, frozen=True):
    """A message to a host: what a new child has to do."""

    data: bytes
    limits: Limits
    forks: int
    """How many forks the child may make for its steps, on top of its limit on processes."""


ORDER, KILL = b"O", b"K"
"""The kinds of messages to a host: an order, or a request to kill the child."""

HEADER = struct.Struct("!cI")
"""The kind of a message to a host, and the length of the order in bytes."""

ANSWER = struct.Struct("!I")
"""A host's answers to a task: 0 once the child is forked, then its wait status once it ends."""
