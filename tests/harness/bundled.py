"""The bundled catalogue, read once in each process; what it holds must not be modified."""

from collections.abc import Collection
from functools import cache

from harness.pages.catalogue import Catalogue, open_catalogue
from harness.pages.page import Page

CATALOGUE = open_catalogue()


@cache
def bundled_pages() -> tuple[Page, ...]:
    """Every page, by kind and family."""
    return CATALOGUE.pages[0]


def part_of_catalogue(pages: Collection[str] = (), probes: Collection[str] = ()) -> Catalogue:
    """Return the catalogue with only these pages, these shared probes, and those of the pages.

    For tests that run every probe on a foreign engine, which needs a fork for each of them.
    """
    part = Catalogue(CATALOGUE.roots)
    chosen = tuple(page for page in bundled_pages() if page.id in pages)
    names = {probe.name for page in chosen for probe in CATALOGUE.probes_for(page)} | {*probes}
    shared = {name: probe for name, probe in CATALOGUE.shared_probes.items() if name in names}
    assert len(chosen) == len(pages)
    assert names <= shared.keys() | {probe.name for page in chosen for probe in page.probes}
    vars(part).update(pages=(chosen, ()), shared_probes=shared)  # as if they had been computed
    return part
