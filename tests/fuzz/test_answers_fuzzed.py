"""Untrusted bytes: frames of a child, rows of the cache, and files that programs read."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.message import Message, as_parts, from_parts, verbatim
from harness.core.report import ClaimReport, EngineReport, Report, RunReport, SiteReport
from harness.core.run import Array, Digest, Failure, Measured, Run, TraceStep, pack
from harness.core.vocabulary import LOSSES, OUTCOMES
from harness.report import to_json
from harness.runs import isolated as host
from harness.runs.cache import Cache, Database
from harness.runs.cached_runs import RUNS
from harness.runs.protocol import (
    KINDS,
    ChildReply,
    EngineLoaded,
    Program,
    ProgramEnd,
    ProgramOutput,
    decode_reply,
    encode_reply,
)
from harness.sandbox.frames import TICKET_SIZE, VERSION, decode_body, encode_frame
from harness.sandbox.limits import Limits
from harness.sandbox.worker import Worker
from tests.examples import examples
from tests.fuzz.changes import spoiled
from tests.fuzz.sound import in_time
from tests.harness.tiny import tiny_job

FEW = examples(50)
"""Of the profile that was asked for."""

A_TICKET = bytes(range(TICKET_SIZE))

# ----- Records, sound and not -----

texts = st.text(max_size=8)
dtypes = st.sampled_from(["<f8", "<f4", "<i8", "|b1", "<c16", "|u1"])
shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)
arrays = st.builds(lambda dtype, shape: pack(np.ones(shape, dtype)), dtypes, shapes)
failures = st.builds(Failure, texts, st.sampled_from(["ValueError", "SIGSEGV", ""]), texts)
named = st.dictionaries(st.sampled_from(["a", "b", "loss"]), arrays, max_size=2)
runs = st.builds(
    Run,
    probe=st.sampled_from(["square", "steps", ""]),
    loss=st.sampled_from([None, *LOSSES]),
    leaves=named,
    output=st.none() | arrays,
    gradients=st.dictionaries(st.sampled_from(["a", "b"]), st.none() | arrays, max_size=2),
    log=st.lists(named, max_size=2),
    trace=st.lists(
        st.builds(
            TraceStep,
            st.integers(0, 9),
            texts,
            st.just((0, None)),
            arrays,
            arrays,
            st.tuples(arrays, st.none()),
        ),
        max_size=1,
    ),
    failure=st.none() | failures,
    reached=st.lists(st.integers(0, 3), max_size=2),
    trail=st.dictionaries(texts, st.builds(Digest, st.integers(0, 2**32)), max_size=2),
    measured=st.dictionaries(
        texts,
        st.builds(Measured, named, st.dictionaries(texts, st.floats(), max_size=1)),
        max_size=1,
    ),
)
replies: st.SearchStrategy[ChildReply] = st.one_of(
    st.builds(EngineLoaded, st.none() | failures),
    runs,
    st.builds(ProgramOutput, st.binary(max_size=20)),
    st.builds(ProgramEnd, st.none() | failures),
)
junk = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(),
        texts,
        st.binary(max_size=9),
        st.sampled_from(
            [",", "O", "V8", "<M8[s]", "f8,f8", "(2,)f8", "f8", ">f8", "e", "[", "1" * 99]
        ),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def mistaken(data: st.DataObject, record: object) -> object:
    """A record as plain values, one of them replaced."""
    if data.draw(st.integers(0, 2)) and isinstance(record, dict | list) and record:
        keys: Sequence[Any] = list(record) if isinstance(record, dict) else range(len(record))
        key = data.draw(st.sampled_from(keys))
        changed = record.copy()
        changed[key] = mistaken(data, record[key])
        return changed
    return data.draw(junk)


def records(data: st.DataObject, record: object) -> bytes:
    """A record as it is sent, or a corrupted one."""
    how = data.draw(st.sampled_from(["sound", "mistaken", "spoiled", "junk", "bytes"]), label="how")
    if how == "mistaken":
        plain = msgspec.msgpack.decode(msgspec.msgpack.encode(record))
        return msgspec.msgpack.encode(mistaken(data, plain))
    if how == "spoiled":
        return spoiled(data, msgspec.msgpack.encode(record), 2)
    if how == "junk":
        return msgspec.msgpack.encode(data.draw(junk))
    if how == "bytes":
        return data.draw(st.binary(max_size=40))
    return msgspec.msgpack.encode(record)


def is_sound(record: object) -> None:
    """Check that a record can be sent again and that its arrays are arrays."""
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=type(record))
    assert msgspec.msgpack.encode(again) == msgspec.msgpack.encode(record)
    for array in arrays_in(record):
        assert array.numpy().shape == array.shape
        assert np.asarray(array.numpy()).dtype.kind in "biufc"


def arrays_in(record: object) -> Iterator[Array]:
    if isinstance(record, Array):
        yield record
        return
    if isinstance(record, msgspec.Struct):
        record = [getattr(record, name) for name in record.__struct_fields__]
    if isinstance(record, dict):
        record = list(record.values())
    if isinstance(record, list | tuple):
        for part in record:
            yield from arrays_in(part)


# ----- Frames, and streams of them -----


@given(st.data(), replies)
def test_a_body_is_a_reply_or_nothing(data: st.DataObject, message: ChildReply) -> None:
    kind = data.draw(st.sampled_from([*KINDS, b"", b"X"]))
    body = bytes([VERSION]) + kind + A_TICKET + records(data, message)
    if data.draw(st.booleans()):
        body = spoiled(data, body, 1)
    with in_time():
        frame = decode_body(body, A_TICKET)
        decoded = decode_reply(frame) if frame else None
    if decoded is not None:
        is_sound(decoded)


@given(st.data(), st.lists(st.lists(replies, max_size=4), max_size=3))
def test_whatever_a_child_sends_there_is_one_run_for_each_item(
    data: st.DataObject, children: list[list[ChildReply]]
) -> None:
    job = msgspec.structs.replace(tiny_job(), limits=Limits(seconds=0.2))
    streams = [[piece(data, message) for message in [EngineLoaded(), *child]] for child in children]
    with playing(streams), in_time():
        try:
            found = host.run_isolated(job)
        except host.EngineDoesNotLoad:
            return
    assert [(run.probe, run.loss) for run in found] == job.pairs
    for run in found:
        is_sound(run)


@FEW
@given(st.data(), st.lists(replies, max_size=6))
def test_whatever_a_program_sends_there_is_a_printout(
    data: st.DataObject, sent: list[ChildReply]
) -> None:
    program = Program("", "page.md", 1, limits=Limits(seconds=0.2))
    with playing([[piece(data, message) for message in sent]]), in_time():
        printout = host.run_program(program)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", printout.text)
    assert len(printout.text) <= 4 * host.MOST_PRINTED


def encoded(message: ChildReply, ticket: bytes) -> bytes:
    """The bytes of a sound frame."""
    return encode_frame(encode_reply(message), ticket)


Piece = tuple[bool, ChildReply | bytes]
"""Whether it waits for a ticket, and a frame that will carry it or bytes as they are."""


def piece(data: st.DataObject, message: ChildReply) -> Piece:
    """What a child does next."""
    asks = data.draw(st.sampled_from([True, True, True, False]))
    how = data.draw(st.sampled_from(["sound", "sound", "framed", "raw", "long"]))
    if how == "sound":
        return asks, message
    if how == "framed":
        body = bytes([VERSION]) + b"R" + A_TICKET + records(data, message)
        return asks, len(body).to_bytes(4, "big") + body
    if how == "long":
        return asks, data.draw(st.integers(0, 2**32 - 1)).to_bytes(4, "big") + b"\0" * 9
    return asks, spoiled(data, encoded(message, A_TICKET), 2)


@contextlib.contextmanager
def playing(streams: Sequence[Sequence[Piece]]) -> Iterator[None]:
    """Every new child plays the next stream; further children end at once."""
    waiting = list(streams)

    def start(task: object, scratch: Path | None = None) -> Worker:  # noqa: ARG001  as `start_worker`
        (asked, ask), (read, write), (overhear, printed) = os.pipe(), os.pipe(), os.pipe()
        stream = waiting.pop(0) if waiting else []
        player = threading.Thread(target=play, args=(stream, asked, write), daemon=True)
        player.start()
        os.close(printed)
        return Worker(_Played(player), ask, read, overhear)

    patch = pytest.MonkeyPatch()
    patch.setattr(host, "start_worker", start)
    try:
        yield
    finally:
        patch.undo()


class _Played:
    """A substitute for a process."""

    lost = False

    def __init__(self, player: threading.Thread) -> None:
        self.player = player

    def end(self, patience: float = 0.0) -> int:  # noqa: ARG002 - the protocol's argument
        return 0


def play(stream: Sequence[Piece], asked: int, write: int) -> None:
    """Act as the child: wait for tickets, send, and end."""
    ticket = A_TICKET
    with contextlib.suppress(OSError):
        for asks, sent in stream:
            if asks and len(ticket := os.read(asked, TICKET_SIZE)) < TICKET_SIZE:
                break
            os.write(write, sent if isinstance(sent, bytes) else encoded(sent, ticket))
    os.close(write)
    os.close(asked)


# ----- The cache -----


@given(st.data(), st.lists(runs, min_size=1, max_size=3))
def test_a_row_of_the_cache_is_a_run_or_missing(data: st.DataObject, kept: list[Run]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.sqlite"
        keys = [bytes([index]) * 32 for index in range(len(kept))]
        Cache(path).put(RUNS, dict(zip(keys, kept, strict=True)))
        Database(path).write(
            {key: records(data, run) for key, run in zip(keys, kept, strict=True)}
        )  # with the checksum of what they are now
        if data.draw(st.booleans()):
            row = data.draw(st.sampled_from([None, 1, 1.5, "text", b""]))
            with contextlib.closing(sqlite3.connect(path)) as file, file:
                file.execute("UPDATE results SET row = ? WHERE key = ?", (row, keys[-1]))
        with in_time():
            found = Cache(path).get(RUNS, [*keys, b"unknown"])
        assert found.keys() <= set(keys)
        for run in found.values():
            is_sound(run)


@FEW
@given(st.data(), st.lists(runs, min_size=1, max_size=3))
def test_a_corrupted_cache_gives_runs_or_nothing(data: st.DataObject, kept: list[Run]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.sqlite"
        rows = {bytes([index]) * 32: run for index, run in enumerate(kept)}
        Cache(path).put(RUNS, rows)
        with contextlib.closing(sqlite3.connect(path)) as file:
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        path.write_bytes(spoiled(data, path.read_bytes()))
        with in_time():
            store = Cache(path)
            for run in store.get(RUNS, rows).values():
                is_sound(run)
            store.put(RUNS, rows)
            store.get(RUNS, rows)


# ----- What programs read -----

words = st.text(max_size=8)
names = st.lists(words, max_size=2)
messages = st.recursive(
    st.builds(verbatim, words),
    lambda parts: st.builds(Message, words, st.dictionaries(words, words | parts, max_size=2)),
    max_leaves=4,
)
messages_by_name = st.dictionaries(words, messages, max_size=2)
FINITE = st.floats(allow_nan=False, allow_infinity=False)

reports = st.builds(
    Report,
    schema=st.just(1),
    break_=words,
    kind=words,
    engine=st.builds(EngineReport, words, st.none() | words),
    sites=st.lists(st.builds(SiteReport, words, st.integers(1, 99), words), max_size=2),
    diff=words,
    headline=st.sampled_from(OUTCOMES),
    agrees=st.booleans(),
    seconds=st.floats(0, 1e9),
    runs=st.lists(
        st.builds(
            RunReport,
            probe=words,
            loss=st.sampled_from([None, *LOSSES]),
            outcome=st.sampled_from(OUTCOMES),
            kind=st.none() | words,
            evidence=messages,
            stage=st.just("revealed"),
            why=messages,
            fingerprint=st.none() | messages,
            first_divergence=st.none() | messages,
            better_than_correct=st.booleans(),
            expected=st.none() | st.sampled_from(OUTCOMES),
            agrees=st.none() | st.booleans(),
            caught_by=names,
            missed_by=names,
            skipped=messages_by_name,
            declined=messages_by_name,
            alarms=messages_by_name,
            wrong_reason=messages_by_name,
            margins=st.dictionaries(words, FINITE, max_size=2),  # null stands for infinity
        ),
        max_size=2,
    ),
    claims=st.lists(
        st.builds(ClaimReport, words, words, st.none() | st.booleans(), messages), max_size=1
    ),
    missing=messages_by_name,
)


@FEW
@given(reports)
def test_a_report_round_trips_through_json(report: Report) -> None:
    text = to_json(report)
    plain = json.loads(text, parse_constant=pytest.fail)
    assert {"schema", "break", "runs"} <= plain.keys()
    back = msgspec.json.decode(text, type=Report, dec_hook=from_parts)
    assert to_json(back) == text


@FEW
@given(reports)
def test_a_report_comes_back_from_the_cache_with_its_messages(report: Report) -> None:
    data = msgspec.msgpack.encode(report, enc_hook=as_parts)
    assert msgspec.msgpack.decode(data, type=Report, dec_hook=from_parts) == report


@FEW
@given(st.data())
def test_a_message_is_read_or_refused(data: st.DataObject) -> None:
    try:
        read = msgspec.msgpack.decode(
            msgspec.msgpack.encode(data.draw(junk)), type=Message, dec_hook=from_parts
        )
    except msgspec.ValidationError:
        return
    assert isinstance(str(read), str)
