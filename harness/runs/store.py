"""The store: runs that were made before, on disk, by all that they depend on.

A run depends on the source that was executed, the probe, the loss, what was asked to be measured,
the versions of Python and of the libraries, and on our own code that observes. All of that is its
key, so a run in the store is never stale: there is nothing to invalidate. What depends on the day
(a time limit, a signal, a process that ended) is not kept.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
import numpy as np

import harness
from harness.core.run import Run
from harness.core.vocabulary import Loss
from harness.pages.probe import Probe
from harness.runs.child import Job, decode_record
from harness.runs.database import Database, user_file
from harness.runs.host import UNREPEATABLE, run_isolated
from harness.runs.inputs import SEED
from harness.sandbox.confinement import Limits

ROOMS = (
    *("core", "patch", "sandbox", "engines", "pages", "runs"),
    *("answer_key", "diagnostics"),  # what they measure in the child
)
"""The folders whose code has a part in a run."""


class Store(Database):
    """Runs by key, in the file at `path`; in memory where there is none, or it cannot be used."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(path)
        self._memory: dict[bytes, Run] = {}

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
        rows = [(key, msgspec.msgpack.encode(run)) for key, run in lasting.items()]
        if not self._write("runs", rows):
            self._memory |= lasting


def open_store(cached: bool = True) -> Store:
    """The user's store, or one that forgets."""
    return Store(user_file() if cached else None)


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
            job.measure,
            job.traced,
            job.trailed,
            job.covered,
            job.limits,
            _versions(job.dialect.distribution or job.dialect.module),
        )
    )
    engine = hashlib.sha256(common + own_code()).digest()
    return [_key(engine, job.probes[index], loss) for index, loss in job.items]


def _key(engine: bytes, probe: Probe, loss: Loss | None) -> bytes:
    return hashlib.sha256(engine + probe.identity + msgspec.json.encode((loss, SEED))).digest()


def _versions(distribution: str) -> tuple[str, str, str]:
    """Python, NumPy, and the library itself where it is installed and not in hand as sources."""
    return sys.version, np.__version__, _release(distribution.partition(".")[0])


@cache
def _release(distribution: str) -> str:
    """Asked once: the answer is in a file of some hundred lines."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


@cache
def own_code() -> bytes:
    """What stands for our own part in a run: every file of the folders that have one."""
    folder = Path(harness.__file__).parent
    files = [file for room in ROOMS for file in sorted((folder / room).rglob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).digest()


def _lasts(run: Run) -> bool:
    return run.failure is None or run.failure.type not in UNREPEATABLE
