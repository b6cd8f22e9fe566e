"""Rows of bytes by key in one SQLite file, which any number of processes can share.

The file survives a kill at any moment. A damaged file is renamed and a new one is started; a file
that cannot be used is reported once, and rows then stay in memory. Every row has a checksum, so a
row with a flipped bit counts as missing. The meaning of the bytes is defined elsewhere, so that a
lookup imports nothing else.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path

LARGEST = 512 * 1024 * 1024
"""Bytes; a larger file is emptied when it is opened."""

CHECKSUM = 16
"""Bytes of the checksum in front of each row."""

PATIENCE = 10.0
"""Seconds to wait, once, for another process that has locked the file."""

_OLD_TABLES = ("runs", "notes")


class Database:
    """The rows in the file at `path`; in memory if it is None or the file cannot be used."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._rows: dict[bytes, bytes] = {}
        self._files: dict[int, _File | None] = {}
        self._warned = mmap(-1, 1)  # shared with the processes that are forked from this one

    def read(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the rows that exist and have a valid checksum."""
        wanted = list(keys)
        rows = {key: self._rows[key] for key in wanted if key in self._rows}
        for key, row in self._select([key for key in wanted if key not in rows]):
            if isinstance(row, bytes) and row[:CHECKSUM] == _checksum(key, row[CHECKSUM:]):
                rows[key] = row[CHECKSUM:]
        return rows

    def write(self, rows: Mapping[bytes, bytes]) -> None:
        """Insert the rows, or replace those with the same keys."""
        checked = [(key, _checksum(key, row) + row) for key, row in rows.items()]
        if not self._insert(checked):
            self._rows |= rows

    def _insert(self, rows: list[tuple[bytes, bytes]]) -> bool:
        """Insert the rows into the file; return whether that was possible."""
        file = self._file
        if file is None:
            return False
        try:
            with file.connection as connection:
                connection.executemany("INSERT OR REPLACE INTO results VALUES (?, ?)", rows)
        except sqlite3.Error as error:
            self._fail(file, error)
            return False
        return True

    def _select(self, keys: list[bytes]) -> Iterator[tuple[bytes, object]]:
        file = self._file
        if file is None:
            return
        for start in range(0, len(keys), 500):
            some = keys[start : start + 500]
            marks = ",".join("?" * len(some))
            query = f"SELECT key, row FROM results WHERE key IN ({marks})"
            try:
                rows = file.connection.execute(query, some).fetchall()
            except sqlite3.Error as error:
                self._fail(file, error)
                return
            yield from rows

    @property
    def _file(self) -> _File | None:
        """The file as opened by this process; None if it cannot be used.

        SQLite's connections can neither be used nor closed after a fork.
        """
        process = os.getpid()
        if self._path and process not in self._files:
            self._files[process] = self._open(self._path)
        return self._files.get(process)

    def _open(self, path: Path, damage: _Damage | None = None) -> _File | None:
        """Open the file, after renaming a damaged one; None if it cannot be used."""
        try:
            if damage and (renamed := damage.rename(path)):
                _warn(f"{damage}; it is now {renamed}, and a new one is started")
            return _open_file(path)
        except _Damage as damaged:
            if damage is None:
                return self._open(path, damaged)
            self._warn_once(damaged)
        except (OSError, sqlite3.Error) as error:
            self._warn_once(error)
        return None

    def _fail(self, file: _File, error: sqlite3.Error) -> None:
        """Continue after an error while the file was in use: with a new file, or without one."""
        if is_damage(error):
            file.connection.close()
            damage = _Damage(file.path, file.number, error)
            self._files[os.getpid()] = self._open(file.path, damage)
        else:
            file.connection.execute("PRAGMA busy_timeout = 0")  # it may stay locked
            self._warn_once(error)

    def _warn_once(self, error: Exception) -> None:
        if self._warned[0] == 0:
            self._warned[0] = 1
            _warn(
                f"results cannot be cached in {self._path}: {error}\n"
                "  remedy: free some space or restore its permissions; meanwhile only time is lost"
            )


@dataclass(frozen=True)
class _File:
    """An open file, with its number in the file system."""

    connection: sqlite3.Connection
    path: Path
    number: int


class _Damage(Exception):
    """The file is not one of our caches, or has become unreadable."""

    def __init__(self, path: Path, number: int, error: Exception) -> None:
        self.number = number
        super().__init__(f"the cache {path} is damaged ({error})")

    def rename(self, path: Path) -> str | None:
        """Rename the file; return its new name, or None if another process has done so already."""
        if path.stat().st_ino != self.number:
            return None
        renamed = path.with_name(f"{path.name}.damaged")
        path.replace(renamed)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return renamed.name


def _open_file(path: Path) -> _File:
    """Open the file, creating it if needed.

    Raises _Damage if it is not a cache, OSError or sqlite3.Error if it cannot be used.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        raise OSError("it is not a regular file")
    # One thread at a time uses it, but not always the one that opened it.
    connection = sqlite3.connect(path, timeout=PATIENCE, check_same_thread=False)
    number = path.stat().st_ino
    try:
        _prepare(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise (_Damage(path, number, error) if is_damage(error) else error) from None
    except ValueError as error:
        connection.close()
        raise _Damage(path, number, error) from None
    return _File(connection, path, number)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the table, and empty a file that has grown too large.

    Raises ValueError if the table has other columns.
    """
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("CREATE TABLE IF NOT EXISTS results (key BLOB PRIMARY KEY, row BLOB)")
    columns = [row[1] for row in connection.execute("PRAGMA table_info(results)")]
    if columns != ["key", "row"]:
        raise ValueError(f"its columns are {', '.join(columns)}")
    for table in _OLD_TABLES:  # of version 0.1
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    if path.stat().st_size > LARGEST:
        connection.execute("DELETE FROM results")
        connection.commit()
        connection.execute("VACUUM")


def _checksum(key: bytes, row: bytes) -> bytes:
    return hashlib.blake2b(row, digest_size=CHECKSUM, key=key[:64]).digest()


def is_damage(error: Exception) -> bool:
    """Whether the file is the problem, rather than the disk, permissions or another process."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _warn(message: str) -> None:
    print(f"harness: {message}", file=sys.stderr)
