"""The events in one SQLite file, which several terminals can share.

Every access is a transaction of its own on a new connection, so that a crash loses at most the
event that was being written, and nothing is open while a learner reads. A file of a newer version
is never changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from harness.core.errors import EnvironmentProblem
from harness.core.message import Message, message, verbatim
from harness.learn.events import AnyEvent, decode, encode, key_of
from harness.runs.cache import PATIENCE, is_damage

VERSION = 1
"""The version of the table, in SQLite's `user_version`."""

APPLICATION = 0x62726B6C
"""The `application_id` of our SQLite files."""


class NotUsable(EnvironmentProblem):
    """The file cannot be read or written."""


class NewerFile(NotUsable):
    """The file was written by a newer version of breaklab."""


class DamagedFile(NotUsable):
    """The file is not one of our databases, or has become unreadable."""


class ProgressDatabase:
    """The events in the file at `path`, which is created when the first one is added."""

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
        """Return the version of the file; 0 if it is empty. Raises DamagedFile and NewerFile."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != APPLICATION and (tables or version or application):
            raise self._damaged(message("it belongs to another program"))
        if version > VERSION:
            problem = message("{path} was written by a newer version of breaklab", path=self.path)
            raise NewerFile(problem, "install that version again; the file was not changed")
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
