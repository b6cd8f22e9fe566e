"""What came of a page before: nothing is tried again as long as nothing that it depends on changes.

That is the page, the engine, the shared probes, the libraries that are asked, Python, and all of
our own code: here not only what observes a run, but also what judges it.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

import harness
from harness.answers import LIBRARIES
from harness.catalogue import Catalogue
from harness.engine import Engine
from harness.matrix.record import FalseAlarm
from harness.page import Page
from harness.report import Report
from harness.sandbox import UNREPEATABLE
from harness.store import Store


class Known(msgspec.Struct, frozen=True):
    """A page's report, and what the diagnostics say of the unpatched engine on its probes."""

    report: Report
    clean: dict[str, list[FalseAlarm]]


def digest_of(catalogue: Catalogue, engine: Engine, variant: Page | None) -> bytes:
    """What stands for all that the results of every page depend on."""
    probes = catalogue.shared_probes.values()
    said = (
        _code().hex(),
        sys.version,
        {name: _version(name) for name in ("numpy", *LIBRARIES)},
        (engine.name, engine.dialect, engine.names, sorted(engine.sources.items())),
        (variant.id, variant.toml, variant.body) if variant else None,
        [(probe.name, probe.doc, probe.source, probe.leaves) for probe in probes],
    )
    return hashlib.sha256(msgspec.json.encode(said)).digest()


def key_of(base: bytes, page: Page) -> bytes:
    """What stands for all that a page's result depends on."""
    return hashlib.sha256(base + msgspec.json.encode((page.id, page.toml, page.body))).digest()


def recall(store: Store, keys: Iterable[bytes]) -> dict[bytes, Known]:
    """Those of the results that are there."""
    found = {}
    for key, data in store.recall_notes(keys).items():
        with contextlib.suppress(msgspec.MsgspecError):
            found[key] = msgspec.msgpack.decode(data, type=Known)
    return found


def remember(
    store: Store, key: bytes, report: Report, clean: Mapping[str, list[FalseAlarm]]
) -> None:
    """Keep a result, unless another day might bring another one."""
    if any(
        run.outcome == "crash" and run.evidence.partition(" ")[0] in UNREPEATABLE
        for run in report.runs
    ):
        return
    store.keep_notes({key: msgspec.msgpack.encode(Known(report, dict(clean)))})


@cache
def _code() -> bytes:
    """All files of the harness."""
    files = sorted(Path(harness.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).digest()


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""
