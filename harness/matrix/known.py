"""What came of a page before: nothing is tried again as long as nothing that it depends on changes.

That is the page, the engine, the shared probes, the libraries that are asked, Python, and all of
our own code: here not only what observes a run, but also what judges it.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import msgspec

from harness.core.report import Report, RunReport
from harness.engines.engine import Engine
from harness.experiment.cached import digest_of_code
from harness.matrix.record import FalseAlarm
from harness.matrix.trials import Size
from harness.pages.catalogue import Catalogue
from harness.pages.page import Page
from harness.runs.host import UNREPEATABLE
from harness.runs.oracles import LIBRARIES
from harness.runs.store import Store

Heard = dict[str, list[FalseAlarm]]
"""What the diagnostics say of the unpatched engine, by probe."""


@dataclass(frozen=True)
class Known:
    """A page's report, and what the diagnostics say of the unpatched engine on its probes."""

    report: Report
    own: dict[str, Size]
    """The page's own probes."""
    clean: Heard


class _Note(msgspec.Struct, frozen=True):
    """A result as it is kept. Most runs never come to the patch, and are alike on all pages."""

    report: Report
    """Without its runs."""
    runs: list[int | RunReport]
    """A number is a place among the reports that are common to all pages."""
    own: dict[str, Size]
    clean: Heard


def pack(known: Known, common: Sequence[RunReport]) -> bytes:
    """A result as it is kept and sent, where these reports on runs are at hand."""
    places = {(run.probe, run.loss): place for place, run in enumerate(common)}
    runs: list[int | RunReport] = []
    for run in known.report.runs:
        place = places.get((run.probe, run.loss))
        runs.append(run if place is None or common[place] != run else place)
    report = msgspec.structs.replace(known.report, runs=[])
    return msgspec.msgpack.encode(_Note(report, runs, known.own, known.clean))


def unpack(data: bytes, common: Sequence[RunReport]) -> Known:
    """What was packed with the same reports. Raises msgspec.MsgspecError for what was not."""
    note = msgspec.msgpack.decode(data, type=_Note)
    runs = [common[run] if isinstance(run, int) else run for run in note.runs]
    return Known(msgspec.structs.replace(note.report, runs=runs), note.own, note.clean)


def digest_of(catalogue: Catalogue, engine: Engine, variant: Page | None) -> bytes:
    """What stands for all that the results of every page depend on."""
    probes = catalogue.shared_probes.values()
    said = (
        digest_of_code(),
        sys.version,
        {name: _version(name) for name in ("numpy", *LIBRARIES)},
        (engine.name, engine.dialect, engine.names, engine.foreign, engine.like),
        sorted(engine.sources.items()),
        (variant.id, variant.toml, variant.body) if variant else None,
        [(probe.name, probe.doc, probe.source, probe.leaves) for probe in probes],
    )
    return hashlib.sha256(msgspec.json.encode(said)).digest()


def key_of(base: bytes, page: Page) -> bytes:
    """What stands for all that a page's result depends on."""
    return hashlib.sha256(base + msgspec.json.encode((page.id, page.toml, page.body))).digest()


def recall_common(store: Store, base: bytes) -> list[RunReport]:
    """The reports that are common to all pages; none where they are not known."""
    with contextlib.suppress(KeyError, msgspec.MsgspecError):
        data = store.recall_notes([_common_key(base)])[_common_key(base)]
        return msgspec.msgpack.decode(data, type=list[RunReport])
    return []


def remember_common(store: Store, base: bytes, common: Sequence[RunReport]) -> None:
    """Keep the reports that are common to all pages."""
    store.keep_notes({_common_key(base): msgspec.msgpack.encode(common)})


def _common_key(base: bytes) -> bytes:
    return hashlib.sha256(base + b"common").digest()


def recall(store: Store, keys: Iterable[bytes], common: Sequence[RunReport]) -> dict[bytes, Known]:
    """Those of the results that are there."""
    found = {}
    for key, data in store.recall_notes(keys).items():
        with contextlib.suppress(msgspec.MsgspecError, IndexError):
            found[key] = unpack(data, common)
    return found


def lasts(report: Report) -> bool:
    """Whether the result would be the same on another day."""
    return not any(
        run.outcome == "crash" and run.evidence.partition(" ")[0] in UNREPEATABLE
        for run in report.runs
    )


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""
