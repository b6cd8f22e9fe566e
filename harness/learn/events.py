"""What a learner did, as events, and the files that hold them.

A learner's progress is the list of these events. An event never changes. So two files of events can
be merged, and equal events in both are the same event. They are kept in one SQLite file, behind a
journal because of which no command fails, and exported as JSON.
"""

from __future__ import annotations

import hashlib
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from harness.core import read_text
from harness.core.errors import EnvironmentProblem, PageError, as_message
from harness.core.files import data_folder, write_new
from harness.core.message import Message, message, verbatim
from harness.core.vocabulary import Loss
from harness.runs.cache import PATIENCE, is_damage

PageName = Annotated[str, msgspec.Meta(pattern=r"\A[a-z0-9]+(-[a-z0-9]+)*\Z", max_length=200)]
LONGEST = 1000
"""Characters of a text."""

LARGEST_SEED = 2**53 - 1
"""Every program that reads JSON can represent it."""

EventText = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f\x7f]*\Z", max_length=LONGEST)]
SelfTestPhase = Literal["before", "after"]
"""Whether a question of the self-test is asked before the track or after it."""

PlaceFound = Literal["line", "function", "no"]
"""Whether an answer in a hunt names the changed line, only its function, or neither."""


def now() -> datetime:
    """Return the time of an event that happens now."""
    return datetime.now(UTC)


class LearnerEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Something that a learner did."""

    time: Annotated[datetime, msgspec.Meta(tz=True)] = msgspec.field(default_factory=now)


class PredictionMade(LearnerEvent, frozen=True, kw_only=True, tag="prediction"):
    """A prediction, and what was observed.

    Without a loss, it is about a probe that computes its own loss, or about both losses. On a page
    with a recipe, `probe` is a metric of the training, and what is predicted is `lower`, `higher`
    and so on.
    """

    page: PageName
    probe: EventText
    loss: Loss | None
    predicted: EventText
    actual: EventText
    right: bool
    question: EventText = ""
    """The page's question that was answered; empty if an outcome was predicted."""


class PageFinished(LearnerEvent, frozen=True, kw_only=True, tag="finished"):
    """A break whose report was read, or a myth."""

    page: PageName


class Attempt(LearnerEvent, frozen=True, kw_only=True, tag="attempt"):
    """A file that was judged for an exercise."""

    exercise: PageName
    killed: bool


class Fix(LearnerEvent, frozen=True, kw_only=True, tag="fix"):
    """A scratch copy of a break that was checked after something was changed in it."""

    page: PageName
    right: bool


class Hint(LearnerEvent, frozen=True, kw_only=True, tag="hint"):
    """A hint that was shown; the steps count from 1."""

    exercise: PageName
    step: Annotated[int, msgspec.Meta(ge=1, le=100)]


class Draw(LearnerEvent, frozen=True, kw_only=True, tag="draw"):
    """The pages whose questions the self-test asks: two of the same kind at each position."""

    before: tuple[PageName, ...]
    after: tuple[PageName, ...]


class TestAnswer(LearnerEvent, frozen=True, kw_only=True, tag="answer"):
    """An answer in the self-test; `right` is None if the question was skipped."""

    __test__ = False  # for pytest, which would collect it

    phase: SelfTestPhase
    page: PageName
    right: bool | None


class HuntKey(msgspec.Struct, frozen=True):
    """Which hunt it is; the bug follows from it, and is stored nowhere."""

    seed: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_SEED)]
    level: Annotated[int, msgspec.Meta(ge=1, le=3)]
    pool: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{12}\Z")]
    """A digest of the bugs that it may be about."""


class HuntBegun(LearnerEvent, frozen=True, kw_only=True, tag="hunt"):
    """A hunt that was begun."""

    hunt: HuntKey


class ClueBought(LearnerEvent, frozen=True, kw_only=True, tag="clue"):
    """A clue that was bought in a hunt, and its cost in forward passes."""

    hunt: HuntKey
    clue: EventText
    passes: Annotated[float, msgspec.Meta(ge=0)]


class HuntAnswer(LearnerEvent, frozen=True, kw_only=True, tag="hunt-answer"):
    """The answer that ended a hunt, and whether it was right."""

    hunt: HuntKey
    family: bool
    place: PlaceFound
    par: Annotated[float, msgspec.Meta(gt=0)]
    """The cost of the clues in `BugPool.par`, in forward passes."""


AnyEvent = (
    PredictionMade
    | PageFinished
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


# ----- One SQLite file, which several terminals can share -----

VERSION = 1
"""The version of the table, in SQLite's `user_version`."""

APPLICATION = 0x62726B6C
"""The `application_id` of our SQLite files."""


class NotUsable(EnvironmentProblem):
    """The file cannot be read or written."""


class DamagedFile(NotUsable):
    """The file is not one of our databases, or has become unreadable."""


class ProgressDatabase:
    """The events in the file at `path`, which is created when the first one is added.

    Every access is a transaction of its own on a new connection, so that a crash loses at most the
    event that was being written, and nothing is open while a learner reads. A file of a newer
    version is never changed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[AnyEvent]:
        """Return the events by time. Raises NotUsable."""
        with self._problems():
            if not self.path.exists():
                return []
            # Not `ro`: after a crash, the first reader rolls back what was only half written.
            with closing(self._connect("rw")) as connection:
                if self._version(connection) == 0:
                    return []
                rows = connection.execute("SELECT event FROM events").fetchall()
        events = [event for (row,) in rows if isinstance(row, bytes) and (event := decode(row))]
        return sorted(events, key=lambda event: event.time)

    def add(self, events: Sequence[AnyEvent]) -> int:
        """Add the events, all or none, and return how many are new. Raises NotUsable."""
        rows = [(key_of(event), encode(event)) for event in events]
        with self._problems():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connect("rwc")) as connection, connection:
                # At once: two terminals that read first would then both wait for the other.
                connection.execute("BEGIN IMMEDIATE")
                if self._version(connection) == 0:
                    _create(connection)
                before = connection.total_changes
                connection.executemany("INSERT OR IGNORE INTO events VALUES (?, ?)", rows)
                return connection.total_changes - before

    def clear(self) -> None:
        """Remove all events, or a damaged file. Raises NotUsable, also for a newer file."""
        try:
            with self._problems():
                if not self.path.exists():
                    return
                with closing(self._connect("rw")) as connection, connection:
                    if self._version(connection):
                        connection.execute("DELETE FROM events")
        except DamagedFile:
            with self._problems():
                self.path.unlink()

    def _connect(self, mode: str) -> sqlite3.Connection:
        if self.path.exists() and not self.path.is_file():
            raise OSError("it is not a regular file")
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        return sqlite3.connect(uri, uri=True, timeout=PATIENCE)

    def _version(self, connection: sqlite3.Connection) -> int:
        """Return the version of the file; 0 if it is empty. Raises NotUsable."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != APPLICATION and (tables or version or application):
            raise self._damaged(message("it belongs to another program"))
        if version > VERSION:
            problem = message("{path} was written by a newer version of breaklab", path=self.path)
            raise NotUsable(problem, "install that version again; the file was not changed")
        return int(version)

    def _damaged(self, reason: Message) -> DamagedFile:
        problem = message("{path} cannot be read: {reason}", path=self.path, reason=reason)
        return DamagedFile(problem, "move it away, or remove it with `harness progress --reset`")

    @contextmanager
    def _problems(self) -> Iterator[None]:
        """Raise what the system or SQLite refuses as NotUsable."""
        try:
            yield
        except (OSError, sqlite3.Error, UnicodeEncodeError) as error:
            if is_damage(error):
                raise self._damaged(verbatim(str(error))) from None
            problem = message("{path} cannot be used: {error}", path=self.path, error=error)
            remedy = "free some space, restore its permissions, or set BREAKLAB_DATA to a folder"
            raise NotUsable(problem, remedy) from None


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE events (key BLOB PRIMARY KEY, event BLOB) WITHOUT ROWID")
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


# ----- The journal: no command fails because of it -----


class Journal:
    """The events in a database; if it cannot be used, those of this process.

    The first problem is one line on standard error, and there is none after it.
    """

    def __init__(self, database: ProgressDatabase) -> None:
        self.database = database
        self._unsaved: list[AnyEvent] = []
        self._has_warned = False

    @property
    def events(self) -> tuple[AnyEvent, ...]:
        """The events so far, by time."""
        try:
            saved = self.database.read()
        except NotUsable as problem:
            self._warn(problem)
            saved = []
        return (*saved, *self._unsaved)

    def record(self, *events: AnyEvent) -> None:
        """Add the events, or remember them as long as this process lasts."""
        try:
            self.database.add(events)
        except NotUsable as problem:
            self._warn(problem)
            self._unsaved += events

    def _warn(self, problem: NotUsable) -> None:
        if not self._has_warned:
            self._has_warned = True
            print(f"harness: progress is not saved: {problem.problem}", file=sys.stderr)


def open_journal() -> Journal:
    """Return the user's journal; nothing is read or created yet."""
    return _open(data_folder())


@cache
def _open(folder: Path) -> Journal:
    """Return this process's only journal: all commands share the events that cannot be saved."""
    return Journal(ProgressDatabase(folder / "progress.sqlite"))


# ----- A JSON file: to hand it in, to keep it, or to move it to another machine -----

LARGEST = 32 * 1024 * 1024
"""Bytes of a file."""

SCHEMA = 1


class Export(msgspec.Struct, frozen=True):
    """Schema 1: keys may be added, never renamed."""

    schema: Annotated[int, msgspec.Meta(ge=1)]
    events: tuple[AnyEvent, ...]


class _Header(msgspec.Struct):
    schema: int


def write_export(events: tuple[AnyEvent, ...], path: Path) -> None:
    """Write the events to a new file. Raises UsageError if it exists."""
    text = msgspec.json.format(msgspec.json.encode(Export(SCHEMA, events)), indent=1)
    write_new(path, text + b"\n", as_message("choose another name, or remove the file"))


def read_export(path: Path) -> tuple[AnyEvent, ...]:
    """Return the events in a file. Raises PageError, with the reason, if it is not an export."""
    text = read_text(path, LARGEST)
    remedy = "`harness progress --export FILE` writes such a file"
    try:
        schema = msgspec.json.decode(text, type=_Header).schema
        if schema > SCHEMA:
            problem = message(
                "its schema is {schema}, and this version of breaklab knows {known}",
                schema=schema,
                known=SCHEMA,
            )
            raise PageError(str(path), 1, problem, "install the version that wrote it")
        return msgspec.json.decode(text, type=Export).events
    except (msgspec.MsgspecError, RecursionError) as error:
        unlike = message("it is not an export of progress: {error}", error=error)
        raise PageError(str(path), 1, unlike, remedy) from None
