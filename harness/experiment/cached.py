"""What `harness break` said of a page before: said again as long as nothing changed.

A report depends on the page, the engine, the variant, the shared probes, Python, the libraries and
all of our own code. That is its key, so it is never stale; and who finds it needs neither NumPy,
nor LibCST, nor anything else that makes a report.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import msgspec

import harness
from harness.core.report import EngineReport, Report, SiteReport
from harness.engines.engine import Engine
from harness.pages.catalogue import Catalogue
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.runs.database import Database

LIBRARIES = ("numpy", "libcst", "torch", "autograd")
"""Whatever is not ours and has a part in a report."""


class Kept(msgspec.Struct, frozen=True):
    """A report, and what is shown beside it; it is read like the experiment that it came from."""

    report: Report
    probes: tuple[Probe, ...]

    def said_in(self, seconds: float) -> Report:
        """The report, as if it had been made in that time."""
        return msgspec.structs.replace(self.report, seconds=round(seconds, 3))

    @property
    def engine(self) -> EngineReport:
        """Which engine it was."""
        return self.report.engine

    @property
    def diff(self) -> str:
        """What the page changed."""
        return self.report.diff

    @property
    def sites(self) -> list[SiteReport]:
        """Where it changed it."""
        return self.report.sites


def key_of_report(
    page: Page, catalogue: Catalogue, engine: Engine, variant: Page | None, probes: Sequence[str]
) -> bytes | None:
    """What stands for all that the report depends on; None where that cannot be told."""
    if engine.foreign or any(each and each.front.transformer for each in (page, variant)):
        return None  # code from anywhere, which may import more
    said = (
        [digest_of_code(), sys.version, *map(_version, LIBRARIES)],
        (engine.name, str(engine.root), engine.dialect, engine.names),
        sorted(engine.sources.items()),
        [(str(path), text) for path, text in catalogue.probe_texts.items()],
        [(each.path, each.toml, each.body) for each in (page, variant) if each],
        [name for name in page.expect if name in catalogue.files],
        list(probes),
    )
    return hashlib.sha256(msgspec.json.encode(said)).digest()


def recall_report(database: Database, key: bytes | None) -> Kept | None:
    """What was kept under that key, if anything."""
    data = database.recall_notes([key]).get(key) if key else None
    try:
        return msgspec.msgpack.decode(data, type=Kept) if isinstance(data, bytes) else None
    except (ValueError, RecursionError):
        return None


def keep_report(database: Database, key: bytes | None, kept: Kept) -> None:
    """Keep a report, unless another day might bring another one."""
    if key and not _depends_on_the_day(kept.report):
        database.keep_notes({key: msgspec.msgpack.encode(kept)})


def _depends_on_the_day(report: Report) -> bool:
    """Whether a limit was met, or a library that is there could not be asked."""
    from harness.runs.host import (
        UNREPEATABLE,  # whoever makes a report has it; nobody else needs it
    )

    return any(
        (run.outcome == "crash" and run.evidence.partition(" ")[0] in UNREPEATABLE)
        or any(" cannot be imported: " in reason for reason in run.skipped.values())
        for run in report.runs
    )


def digest_of_code() -> str:
    """Of all files of the harness, the data among them included."""
    folder = Path(harness.__file__).parent
    digest = hashlib.sha256()
    for file in sorted((*folder.rglob("*.py"), *folder.rglob("*.toml"))):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _version(library: str) -> tuple[bool, str]:
    """Whether it can be imported, and its version."""
    try:
        return find_spec(library) is not None, version(library)
    except PackageNotFoundError:
        return find_spec(library) is not None, ""
