"""The store: runs that were made before, on disk, by all that they depend on.

A run depends on the source that was executed, the probe, the loss, what was asked to be measured,
the versions of Python and of the libraries, and on our own code that observes. All of that is its
key, so a run in the store is never stale: there is nothing to invalidate. What depends on the day
(a time limit, a signal, a process that ended) is not kept.

One SQLite file serves any number of processes, and survives being killed at any moment.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
import numpy as np
from platformdirs import user_cache_path

import harness
from harness.confine import Limits
from harness.leaves import SEED
from harness.probe import Probe
from harness.run import Run
from harness.sandbox import UNREPEATABLE, run_isolated
from harness.words import Loss
from harness.worker import Job, decode_record

LARGEST = 512 * 1024 * 1024
"""Bytes; a larger file is emptied when it is opened."""

FACES = (
    *("__main__", "attempt", "bench", "catalogue", "check", "claims", "cli", "draft", "evidence"),
    *("exercise", "exercise_check", "finding", "lab", "links", "matrix", "myth", "names"),
    *("new_page", "observed", "outcome", "page", "predict", "prose", "report", "stage", "text"),
    *("training", "translation"),
)
"""Modules that no child imports: they choose, judge and show runs, and have no part in them."""


class Store:
    """Runs by key, in the file at `path`; in memory where there is none, or it cannot be used."""

    def __init__(self, path: Path | None) -> None:
        self._memory: dict[bytes, Run] = {}
        self._notes: dict[bytes, bytes] = {}
        self._path = path
        self._open: tuple[int, sqlite3.Connection | None] = (0, None)

    @property
    def _file(self) -> sqlite3.Connection | None:
        """The connection of this process: SQLite's cannot be taken across a fork."""
        if self._path and self._open[0] != os.getpid():
            self._open = os.getpid(), _open(self._path)
        return self._open[1]

    def recall(self, keys: Iterable[bytes]) -> dict[bytes, Run]:
        """Those of the runs that are there."""
        wanted = list(keys)
        found = {key: self._memory[key] for key in wanted if key in self._memory}
        for key, data in self._read([key for key in wanted if key not in found]):
            if isinstance(data, bytes) and (run := decode_record(data, Run)):
                found[key] = run
        return found

    def keep(self, runs: Mapping[bytes, Run]) -> None:
        """Keep the runs that would come out the same another day."""
        lasting = {key: run for key, run in runs.items() if _lasts(run)}
        file = self._file
        if file is None:
            self._memory |= lasting
        elif lasting:
            rows = [(key, msgspec.msgpack.encode(run)) for key, run in lasting.items()]
            # A disk that takes nothing only costs time.
            with contextlib.suppress(sqlite3.Error), file:
                file.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?)", rows)

    def recall_notes(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Those of the notes that are there: what was concluded from runs, by its own keys."""
        return {**self._notes, **dict(self._read(list(keys), "notes"))}

    def keep_notes(self, notes: Mapping[bytes, bytes]) -> None:
        """Keep what was concluded."""
        file = self._file
        if file is None:
            self._notes |= notes
        else:
            with contextlib.suppress(sqlite3.Error), file:
                file.executemany("INSERT OR REPLACE INTO notes VALUES (?, ?)", notes.items())

    def _read(self, keys: list[bytes], table: str = "runs") -> Iterable[tuple[bytes, bytes]]:
        file = self._file
        if not file:
            return
        for start in range(0, len(keys), 500):
            some = keys[start : start + 500]
            marks = ",".join("?" * len(some))
            with contextlib.suppress(sqlite3.Error):
                found = file.execute(
                    f"SELECT * FROM {table} WHERE key IN ({marks})",
                    some,
                )
                yield from found.fetchall()


def open_store(cached: bool = True) -> Store:
    """The user's store, or one that forgets."""
    return Store(user_cache_path("breaklab") / "runs.sqlite" if cached else None)


def run_kept(job: Job, store: Store, limits: Limits | None = None) -> list[Run]:
    """As `run_isolated`, but only what the store does not have is run.

    Raises EngineDoesNotLoad where something had to be run and could not even start.
    """
    if limits:
        job = msgspec.structs.replace(job, limits=limits)
    keys = keys_of(job)
    known = store.recall(keys)
    unknown = [i for i, key in enumerate(keys) if key not in known]
    if unknown:
        rest = msgspec.structs.replace(job, items=tuple(job.items[i] for i in unknown))
        fresh = {keys[i]: run for i, run in zip(unknown, run_isolated(rest), strict=True)}
        store.keep(fresh)
        known |= fresh
    return [known[key] for key in keys]


def keys_of(job: Job) -> list[bytes]:
    """The key of each of the job's items, in their order."""
    common = msgspec.json.encode(
        (
            job.dialect,
            sorted(job.sources.items()),
            job.sites,
            sorted(job.measure),
            job.answer_key,
            job.traced,
            job.covered,
            job.limits,
            _versions(job.dialect.distribution or job.dialect.module),
        )
    )
    engine = hashlib.sha256(common + _own_code()).digest()
    return [_key(engine, job.probes[index], loss) for index, loss in job.items]


def _key(engine: bytes, probe: Probe, loss: Loss | None) -> bytes:
    # `line` and `path` stand for nothing but tracebacks, `doc` for nothing at all.
    said = (probe.name, probe.kind, probe.source, probe.leaves, probe.resume_at, loss, SEED)
    return hashlib.sha256(engine + msgspec.json.encode(said)).digest()


def _versions(distribution: str) -> tuple[str, str, str]:
    """Python, NumPy, and the library itself where it is installed and not in hand as sources."""
    try:
        release = version(distribution.partition(".")[0])
    except PackageNotFoundError:
        release = ""
    return sys.version, np.__version__, release


@cache
def _own_code() -> bytes:
    """What stands for our own part in a run: every file of the harness but the faces."""
    folder = Path(harness.__file__).parent
    files = [
        file
        for file in sorted(folder.rglob("*.py"))
        if file.relative_to(folder).parts[0].removesuffix(".py") not in FACES
    ]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).digest()


def _lasts(run: Run) -> bool:
    return run.failure is None or run.failure.type not in UNREPEATABLE


def _open(path: Path) -> sqlite3.Connection | None:
    """The file, made where there is none; None where that cannot be: the store then forgets."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = sqlite3.connect(path, timeout=10.0)
        file.execute("PRAGMA journal_mode=WAL")
        file.execute("PRAGMA synchronous=NORMAL")
        file.execute("CREATE TABLE IF NOT EXISTS runs (key BLOB PRIMARY KEY, run BLOB)")
        file.execute("CREATE TABLE IF NOT EXISTS notes (key BLOB PRIMARY KEY, note BLOB)")
        if path.stat().st_size > LARGEST:
            file.execute("DELETE FROM runs")
            file.execute("DELETE FROM notes")
            file.commit()
            file.execute("VACUUM")
    except (OSError, sqlite3.Error):
        return None
    return file
