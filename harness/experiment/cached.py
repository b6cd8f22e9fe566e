"""Reports of `harness break`, cached by everything that they depend on.

A report depends on the page, the engine, the variant and the shared probes, and on Python, the
libraries and all of our own code. Looking one up imports neither NumPy nor LibCST.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.core.report import Report
from harness.engines.engine import Engine
from harness.pages.catalogue import Catalogue
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.runs.cache import ResultKind, installed_packages, key_of


class CachedReport(msgspec.Struct, frozen=True):
    """A report, and the probes that are shown beside it."""

    report: Report
    probes: tuple[Probe, ...]

    @property
    def repeatable(self) -> bool:
        """Whether running again would give the same report."""
        return self.report.repeatable

    def with_seconds(self, seconds: float) -> Report:
        """Return the report with the time that it took to find it."""
        return msgspec.structs.replace(self.report, seconds=round(seconds, 3))


REPORTS: ResultKind[CachedReport] = ResultKind("report", CachedReport)


def key_of_report(
    page: Page, catalogue: Catalogue, engine: Engine, variant: Page | None, probes: Sequence[str]
) -> bytes | None:
    """Return the key of a page's report, or None for a foreign engine."""
    if engine.foreign:
        return None
    facts = (
        (str(engine.root), engine_facts(engine)),
        [(str(path), text) for path, text in catalogue.probe_texts.items()],
        catalogue.diagnostic_texts,
        [page_facts(item) for item in (page, variant or catalogue.in_place) if item],
        variant is None,
        [name for name in page.expect if name in catalogue.files],
        list(probes),
    )
    return key_of(REPORTS, facts)


def page_facts(page: Page) -> tuple[str, str, str]:
    """Return everything in a page that a result depends on."""
    return page.path, page.toml, page.body


def engine_facts(engine: Engine) -> tuple[object, ...]:
    """Return everything in an engine that a result depends on."""
    names = engine.name, engine.dialect, engine.names, engine.foreign, engine.like
    packages = installed_packages() if engine.foreign else []
    return (*names, sorted(engine.sources.items()), packages)
