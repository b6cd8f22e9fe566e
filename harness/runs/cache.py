"""The cache: results stored by everything they depend on, so that none has to be invalidated.

A key is a digest of the kind of result, our own code, Python, the libraries, and the facts that a
caller names. A result is stored only if it is repeatable: not after a time limit, a signal or any
other failure that may not happen again. Importing this module is cheap.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

import harness
from harness.core.files import cache_folder
from harness.core.message import as_parts, from_parts
from harness.runs.database import Database

Result = TypeVar("Result")

LIBRARIES = ("numpy", "libcst", "torch", "autograd", "scipy")
"""The libraries that affect a result."""

RUN_ROOMS = (
    *("core", "patch", "sandbox", "engines", "pages", "runs"),
    *("answer_key", "diagnostics"),  # what they measure in the child
)
"""The folders whose code affects a run."""


@dataclass(frozen=True)
class Kind(Generic[Result]):
    """A kind of result: its name, its type, and the folders of our code that affect it."""

    name: str
    type: Any
    """What the stored bytes are decoded as."""
    rooms: tuple[str, ...] = ("",)
    """Folders below `harness`; the whole harness by default."""
    is_repeatable: Callable[[Result], bool] = attrgetter("repeatable")
    """Whether another run would give the same result."""


def key_of(kind: Kind[Any], facts: object) -> bytes:
    """Return the key of the result that these facts determine.

    Parameters
    ----------
    kind : Kind
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

    def get(self, kind: Kind[Result], keys: Iterable[bytes]) -> dict[bytes, Result]:
        """Return the results that are stored under these keys."""
        rows = self._database.read(keys).items()
        results = {key: _decode(row, kind.type) for key, row in rows}
        return {key: result for key, result in results.items() if result is not None}

    def put(self, kind: Kind[Result], results: Mapping[bytes, Result]) -> None:
        """Store the results that are repeatable."""
        rows = {
            key: msgspec.msgpack.encode(result, enc_hook=as_parts)
            for key, result in results.items()
            if kind.is_repeatable(result)
        }
        self._database.write(rows)

    def fetch(
        self,
        kind: Kind[Result],
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
    try:
        return find_spec(library) is not None, version(library)
    except PackageNotFoundError:
        return find_spec(library) is not None, ""


def _decode(row: bytes, kind: Any) -> Any:
    """Return a decoded row, or None if it is not of this kind."""
    try:
        return msgspec.msgpack.decode(row, type=kind, dec_hook=from_parts)
    except (ValueError, RecursionError):
        return None
