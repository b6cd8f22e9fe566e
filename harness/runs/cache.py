"""The cache: results stored by everything they depend on, so that none has to be invalidated.

A key is a digest of the kind of result, our own code, Python, the libraries, and the facts that a
caller names. A result is stored only if it is repeatable: not after a time limit, a signal or any
other failure that may not happen again. The rows are in one SQLite file. Importing this module is
cheap.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from mmap import mmap
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import finalize

import msgspec

import harness
from harness.core.files import cache_folder
from harness.core.message import as_parts, from_parts

Result = TypeVar("Result")

LIBRARIES = ("numpy", "libcst", "torch", "autograd", "scipy")
"""The libraries that affect a result."""

RUN_ROOMS = (
    *("core", "patch", "sandbox", "engines", "pages", "runs"),
    *("answer_key", "diagnostics"),  # what they measure in the child
)
"""The folders whose code affects a run."""


@dataclass(frozen=True)
class ResultKind(Generic[Result]):
    """A kind of result: its name, its type, and the folders of our code that affect it."""

    name: str
    type: Any
    """What the stored bytes are decoded as."""
    rooms: tuple[str, ...] = ("",)
    """Folders below `harness`; the whole harness by default."""
    is_repeatable: Callable[[Result], bool] = attrgetter("repeatable")
    """Whether another run would give the same result."""


def key_of(kind: ResultKind[Any], facts: object) -> bytes:
    """Return the key of the result that these facts determine.

    Parameters
    ----------
    kind : ResultKind
        What is stored under the key.
    facts : object
        Everything else that the result depends on, besides our code, Python and the libraries:
        anything that `msgspec` encodes as JSON.

    Returns
    -------
    bytes
        32 bytes.
    """
    environment = _environment(kind.name, kind.rooms, sys.version)
    return hashlib.sha256(environment + msgspec.json.encode(facts)).digest()


class Cache:
    """Results by key, in the file at `path`; in memory if it is None or cannot be used."""

    def __init__(self, path: Path | None) -> None:
        self._database = Database(path)

    def get(self, kind: ResultKind[Result], keys: Iterable[bytes]) -> dict[bytes, Result]:
        """Return the results that are stored under these keys."""
        rows = self._database.read(keys).items()
        results = {key: _decode(row, kind.type) for key, row in rows}
        return {key: result for key, result in results.items() if result is not None}

    def put(self, kind: ResultKind[Result], results: Mapping[bytes, Result]) -> None:
        """Store the results that are repeatable."""
        rows = {
            key: msgspec.msgpack.encode(result, enc_hook=as_parts)
            for key, result in results.items()
            if kind.is_repeatable(result)
        }
        self._database.write(rows)

    def fetch(
        self,
        kind: ResultKind[Result],
        keys: Sequence[bytes],
        compute: Callable[[list[int]], Sequence[Result]],
    ) -> list[Result]:
        """Return the result for each key; `compute` gets the positions of the missing ones."""
        results = self.get(kind, keys)
        missing = [position for position, key in enumerate(keys) if key not in results]
        if missing:
            fresh = dict(zip((keys[i] for i in missing), compute(missing), strict=True))
            self.put(kind, fresh)
            results |= fresh
        return [results[key] for key in keys]


def open_cache(enabled: bool = True) -> Cache:
    """Return the user's cache, or one that lasts as long as this process."""
    return Cache(cache_folder() / "runs.sqlite" if enabled else None)


@cache
def _environment(kind: str, rooms: tuple[str, ...], python: str) -> bytes:
    facts = (kind, code_digest(rooms), python, [_version(library) for library in LIBRARIES])
    return hashlib.sha256(msgspec.json.encode(facts)).digest()


@cache
def code_digest(rooms: tuple[str, ...]) -> str:
    """Return a digest of the code and the data files in these folders below `harness`."""
    folder = Path(harness.__file__).parent
    digest = hashlib.sha256()
    for room in rooms:
        for file in sorted((*(folder / room).rglob("*.py"), *(folder / room).rglob("*.toml"))):
            digest.update(file.relative_to(folder).as_posix().encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def installed_packages() -> list[tuple[str, int]]:
    """Return the folders of installed packages, with the times at which they last changed.

    They belong to the key of a result on an engine that may import any of these packages.
    """
    folders = (Path(entry) for entry in sys.path if entry.endswith("-packages"))
    return [(str(folder), folder.stat().st_mtime_ns) for folder in folders if folder.is_dir()]


@cache
def _version(library: str) -> tuple[bool, str]:
    """Whether the library can be imported, and its version."""
    from importlib.metadata import PackageNotFoundError, version  # many commands need no version

    try:
        is_found = find_spec(library) is not None
    except ValueError:  # tests have put a module without a spec in its place
        is_found = True
    try:
        return is_found, version(library)
    except PackageNotFoundError:
        return is_found, ""


def _decode(row: bytes, kind: Any) -> Any:
    """Return a decoded row, or None if it is not of this kind."""
    try:
        return msgspec.msgpack.decode(row, type=kind, dec_hook=from_parts)
    except (ValueError, RecursionError):
        return None


# ----- The file -----
#
# Any number of processes can share it, and it survives a kill at any moment. A damaged file is
# renamed and a new one is started; a file that cannot be used is reported once, and rows then stay
# in memory. Every row has a checksum, so a row with a flipped bit counts as missing.

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
        self._files: dict[int, _OpenFile | None] = {}
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
    def _file(self) -> _OpenFile | None:
        """The file as opened by this process; None if it cannot be used.

        SQLite's connections can neither be used nor closed after a fork.
        """
        process = os.getpid()
        if self._path and process not in self._files:
            self._files[process] = self._open(self._path)
        return self._files.get(process)

    def _open(self, path: Path, damage: _CacheDamage | None = None) -> _OpenFile | None:
        """Open the file, after renaming a damaged one; None if it cannot be used."""
        try:
            if damage and (renamed := damage.rename(path)):
                _warn(f"{damage}; it is now {renamed}, and a new one is started")
            return _open_file(path)
        except _CacheDamage as damaged:
            if damage is None:
                return self._open(path, damaged)
            self._warn_once(damaged)
        except (OSError, sqlite3.Error) as error:
            self._warn_once(error)
        return None

    def _fail(self, file: _OpenFile, error: sqlite3.Error) -> None:
        """Continue after an error while the file was in use: with a new file, or without one."""
        if is_damage(error):
            file.connection.close()
            damage = _CacheDamage(file.path, file.number, error)
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
class _OpenFile:
    """An open file, with its number in the file system."""

    connection: sqlite3.Connection
    path: Path
    number: int


class _CacheDamage(Exception):
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


def _open_file(path: Path) -> _OpenFile:
    """Open the file, creating it if needed.

    Raises _CacheDamage if it is not a cache, OSError or sqlite3.Error if it cannot be used.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        raise OSError("it is not a regular file")
    # One thread at a time uses it, but not always the one that opened it.
    connection = sqlite3.connect(path, timeout=PATIENCE, check_same_thread=False)
    number = path.stat().st_ino
    try:
        _prepare_table(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise (_CacheDamage(path, number, error) if is_damage(error) else error) from None
    except ValueError as error:
        connection.close()
        raise _CacheDamage(path, number, error) from None
    opened = _OpenFile(connection, path, number)
    finalize(opened, _close, connection, os.getpid())
    return opened


def _close(connection: sqlite3.Connection, process: int) -> None:
    """Close a connection that nobody uses any more, which Python 3.13 would warn about."""
    if os.getpid() == process:
        connection.close()


def _prepare_table(connection: sqlite3.Connection, path: Path) -> None:
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
