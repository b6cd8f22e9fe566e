"""The store's file: rows of bytes by key, which any number of processes share.

One SQLite file survives being killed at any moment. A file that is damaged all the same is put
aside, and one that cannot be used is spoken of once. What the bytes mean is for others to say, so
that who only looks something up need not import what makes it.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path

from platformdirs import user_cache_path

LARGEST = 512 * 1024 * 1024
"""Bytes; a larger file is emptied when it is opened."""


class Database:
    """The file at `path`; in memory where there is none, or it cannot be used."""

    def __init__(self, path: Path | None) -> None:
        self._notes: dict[bytes, bytes] = {}
        self._path = path
        self._open: dict[int, _File | None] = {}
        self._complained = mmap(-1, 1)  # shared with the processes that are forked from this one

    @property
    def is_usable(self) -> bool:
        """Whether there is a file, and it can be used."""
        return self._file is not None

    def recall_notes(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Those of the notes that are there: what was concluded from runs, by its own keys."""
        return {**self._notes, **dict(self._read(list(keys), "notes"))}

    def keep_notes(self, notes: Mapping[bytes, bytes]) -> None:
        """Keep what was concluded."""
        if not self._write("notes", list(notes.items())):
            self._notes |= notes

    def _write(self, table: str, rows: list[tuple[bytes, bytes]]) -> bool:
        """Whether the file has taken the rows, by their keys."""
        file = self._file
        if file is None:
            return False
        try:
            with file.connection as connection:
                connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", rows)
        except sqlite3.Error as error:
            self._lose(file, error)
            return False
        return True

    def _read(self, keys: list[bytes], table: str = "runs") -> Iterable[tuple[bytes, bytes]]:
        file = self._file
        if not file:
            return
        for start in range(0, len(keys), 500):
            some = keys[start : start + 500]
            marks = ",".join("?" * len(some))
            try:
                found = file.connection.execute(
                    f"SELECT * FROM {table} WHERE key IN ({marks})",
                    some,
                ).fetchall()
            except sqlite3.Error as error:
                self._lose(file, error)
                return
            yield from found

    @property
    def _file(self) -> _File | None:
        """The file as this process has it; None where it cannot be used.

        SQLite's connections cannot be taken across a fork, nor may they be closed there.
        """
        process = os.getpid()
        if self._path and process not in self._open:
            self._open[process] = self._begin(self._path)
        return self._open.get(process)

    def _begin(self, path: Path, damaged: _Damaged | None = None) -> _File | None:
        """Open the file, after putting a damaged one aside; None where it cannot be used."""
        try:
            if damaged and (aside := damaged.put_aside(path)):
                _say(f"{damaged}; it is now {aside}, and a new one is begun")
            return _open(path)
        except _Damaged as found:
            if damaged is None:
                return self._begin(path, found)
            self._complain(found)
        except (OSError, sqlite3.Error) as error:
            self._complain(error)
        return None

    def _lose(self, file: _File, error: sqlite3.Error) -> None:
        """The file failed while it was used: go on with a new one, or without."""
        if _is_damage(error):
            file.connection.close()
            damaged = _Damaged(file.path, file.number, error)
            self._open[os.getpid()] = self._begin(file.path, damaged)
        else:
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        if self._complained[0] == 0:
            self._complained[0] = 1
            remedy = "make room or give it back its permissions; all that it costs is time"
            _say(f"runs cannot be kept in {self._path}: {error}\n  remedy: {remedy}")


def user_file() -> Path:
    """Where the user's runs are kept."""
    return user_cache_path("breaklab") / "runs.sqlite"


@dataclass(frozen=True)
class _File:
    """A file of runs that is open, with the number that the file system knows it by."""

    connection: sqlite3.Connection
    path: Path
    number: int


class _Damaged(Exception):
    """A file that is there, and is no store of runs, or no longer."""

    def __init__(self, path: Path, number: int, error: Exception) -> None:
        self.number = number
        super().__init__(f"the store of runs {path} is damaged ({error})")

    def put_aside(self, path: Path) -> str | None:
        """Give the file another name; None where another process has done so before."""
        if path.stat().st_ino != self.number:
            return None
        aside = path.with_name(f"{path.name}.damaged")
        path.replace(aside)
        for end in ("-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)
        return aside.name


def _open(path: Path) -> _File:
    """The file, made where there is none.

    Raises _Damaged where it is no store of runs, OSError or sqlite3.Error where it cannot be used.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        raise OSError("it is no file")
    connection = sqlite3.connect(path, timeout=10.0)
    number = path.stat().st_ino
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("CREATE TABLE IF NOT EXISTS runs (key BLOB PRIMARY KEY, run BLOB)")
        connection.execute("CREATE TABLE IF NOT EXISTS notes (key BLOB PRIMARY KEY, note BLOB)")
        columns = [row[1] for row in connection.execute("PRAGMA table_info(runs)")]
        if columns != ["key", "run"]:
            raise _Damaged(path, number, ValueError(f"its columns are {', '.join(columns)}"))
        if path.stat().st_size > LARGEST:
            connection.execute("DELETE FROM runs")
            connection.execute("DELETE FROM notes")
            connection.commit()
            connection.execute("VACUUM")
    except sqlite3.Error as error:
        connection.close()
        raise (_Damaged(path, number, error) if _is_damage(error) else error) from None
    except _Damaged:
        connection.close()
        raise
    return _File(connection, path, number)


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether it is the file, and not the disk, its permissions or another process."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _say(message: str) -> None:
    print(f"harness: {message}", file=sys.stderr)
