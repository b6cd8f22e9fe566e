"""The messages between the grader and the confined process that runs a suite.

The process is sent compiled code for one run at a time, and nothing that says what the code is: a
correct engine, a twin and a break are the same kind of `RunRequest`. The code is sealed, since the
suite can read everything else in its process.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from types import CodeType
from typing import Annotated, Literal

import msgspec

from harness.core.run import Digest
from harness.engines.engine import Dialect
from harness.runs.comparison import CallComparison

PackedCodes = dict[str, bytes]
"""Compiled files of an engine (`marshal`), by their path below its root."""


def pack(files: Mapping[str, CodeType]) -> PackedCodes:
    """Return compiled files as bytes."""
    return {file: marshal.dumps(code) for file, code in files.items()}


def unpack(codes: PackedCodes) -> dict[str, CodeType]:
    """Return the compiled files that were packed."""
    return {file: marshal.loads(code) for file, code in codes.items()}


def unpack_message(message: bytes) -> dict[str, CodeType]:
    """Return the compiled files in a message to a process that is not blind; b"" has none."""
    return unpack(msgspec.msgpack.decode(message, type=PackedCodes)) if message else {}


MOST_TESTS, LONGEST_NAME, LONGEST_MESSAGE = 10_000, 1000, 300
"""Limits for the tests of a suite: how many, and the lengths of their ids and messages."""


class HostedEngine(msgspec.Struct, frozen=True):
    """The engine of a process; it remains in the memory of the host, which any suite can read."""

    root: str
    files: PackedCodes
    """The files of the correct engine, without their text."""
    dialect: Dialect
    """How the engine is called."""


class Collect(msgspec.Struct, frozen=True):
    """What a process loads. It is sent to the child alone: other submissions must not see it."""

    files: dict[str, bytes]
    """The files of the submission, by their path below its folder."""
    folder: str
    """The name of its folder in the scratch folder."""
    tests: list[str]
    """The files that are collected."""
    changed: bytes = b""
    """The engine's files that are loaded in place of the correct ones; sealed if it is blind."""
    key: bytes = b""
    """The key of what is sealed; see `harness.grade.blinding`."""
    hidden: list[str] = []
    """Folders from which nothing is imported."""
    blind: bool = True
    """Whether the process hides the engine's code. If not, it compares the calls of two versions,
    and nothing else that it reports is used: see `harness.grade.survivors`."""


class Raised(msgspec.Struct, frozen=True):
    """An exception of a test or an import; a hostile suite may choose all of it."""

    text: Annotated[str, msgspec.Meta(max_length=LONGEST_MESSAGE)] = ""
    """Its type and the first line of its message."""
    type: Annotated[str, msgspec.Meta(max_length=LONGEST_MESSAGE)] = ""
    name: Annotated[str, msgspec.Meta(max_length=LONGEST_MESSAGE)] = ""
    """The module or the fixture that was not found."""


class Collected(msgspec.Struct, frozen=True, tag="collected"):
    """The tests of a suite, by their pytest ids; or why there are none."""

    tests: list[str]
    problem: str = ""
    kind: Literal["", "empty", "many", "raised"] = ""
    """Which problem: there are no tests, too many, or a file or a hook raises."""
    file: str = ""
    """The file that cannot be imported, if that is known."""
    raised: Raised = Raised()
    refused: Annotated[list[str], msgspec.Meta(max_length=50)] = []
    """Which ways to look at the engine's code were refused while they were imported."""


LIMIT_REACHED = "a limit of time, memory or processes was reached, or a process was killed"
"""How a run ended; which limit is reached first depends on how busy the machine is."""


class RunRequest(msgspec.Struct, frozen=True):
    """Tests to run in a fork, after the engine's code was replaced."""

    changed: bytes
    """The engine's files that replace the correct ones, or b""; sealed if the process is blind."""
    tests: list[int]
    """The positions of the tests, in the order in which they are run."""
    seconds: float
    """The time limit for all of them."""
    cpu_seconds: float
    """The limit on processor time for all of them."""
    each: list[float]
    """The limit on processor time for each of them."""
    until: int | None = None
    """The test after which the fork is ended."""
    stop: bool = False
    """Whether to end the fork after the first test that fails."""
    record: bool = False
    """Whether to record which functions each test calls."""
    trail: bool = False
    """Whether to record what changed functions receive and return, and the walks."""


TestResult = Literal["passed", "failed", "skipped", "xfailed", "xpassed"]
"""What pytest says of a test, with one difference: `passed` is also said of a test that fails as
its strict mark expects, since passing would make it fail."""


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """A test has ended."""

    test: int
    result: TestResult
    seconds: Annotated[float, msgspec.Meta(ge=0, le=1e6)]
    raised: Raised = Raised()
    """The first exception of a test that fails."""
    reached: list[int] | None = None
    """The engine's functions that it calls, if that was recorded; -1 for one that is not known."""
    trail: dict[str, Digest] = {}
    """Digests of what changed functions received and returned, if that was recorded."""
    cpu_seconds: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 0.0
    """The processor time of the fork during the test."""
    refused: Annotated[list[str], msgspec.Meta(max_length=50)] = []
    """Which ways to look at the engine's code were refused to it."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The code cannot be replaced: another process has to load it."""


class Compared(msgspec.Struct, frozen=True, tag="compared"):
    """What the calls of a process show that is not blind; a hostile suite may choose all of it."""

    comparison: CallComparison | None
    """None if a test fails before a number is wrong."""


TestEvent = Ended | Refused | Compared


class ForkOutput(msgspec.Struct, frozen=True, tag="finished"):
    """What arrived from a fork, and how the fork ended if not by itself."""

    events: bytes
    problem: str = ""
    late: bool = False
    """Whether it did not end in time."""


SuiteReply = Collected | ForkOutput

MOST_BYTES = 4 * 1024 * 1024
"""The largest size of all events of a run."""

_reply: msgspec.msgpack.Decoder[SuiteReply] = msgspec.msgpack.Decoder(SuiteReply)
_event: msgspec.msgpack.Decoder[TestEvent] = msgspec.msgpack.Decoder(TestEvent)


def decode_reply(payload: bytes) -> SuiteReply | None:
    """Return the reply in a frame; None if it is not one."""
    try:
        return _reply.decode(payload)
    except msgspec.MsgspecError:
        return None


def encode_event(event: TestEvent) -> bytes:
    """Return the bytes of an event, with four bytes of length before them."""
    data = msgspec.msgpack.encode(event)
    return len(data).to_bytes(4, "big") + data


def split_events(data: bytes) -> tuple[list[TestEvent], bytes]:
    """Return the events at the beginning of the data, and what follows the last of them.

    What follows is incomplete, or not an event.
    """
    events: list[TestEvent] = []
    position = 0
    while len(data) >= position + 4:
        end = position + 4 + int.from_bytes(data[position : position + 4], "big")
        if end > len(data):
            break
        try:
            events.append(_event.decode(data[position + 4 : end]))
        except msgspec.MsgspecError:
            break
        position = end
    return events, data[position:]
