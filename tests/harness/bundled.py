"""The bundled catalogue, read once in each process; what it holds must not be modified."""

from functools import cache

from harness.pages.catalogue import open_catalogue
from harness.pages.page import Page

CATALOGUE = open_catalogue()


@cache
def bundled_pages() -> tuple[Page, ...]:
    """Every page, by kind and family."""
    return CATALOGUE.pages[0]
