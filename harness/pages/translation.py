"""Translations: `ID.LANG.md` holds a page's prose in another language, and only that.

+++
of = "0123456789ab"      # the original's fingerprint when the translation was last reviewed
+++
# The title in that language
... the same sections in the same order, with the same code byte for byte
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from harness.core import read_text
from harness.pages.page import Page, read_title, split_front


def fingerprint(page: Page) -> str:
    """Return the version of a page, for its translations: 12 hex digits of the body's SHA-256."""
    return hashlib.sha256(page.body.encode()).hexdigest()[:12]


def translated(page: Page, path: Path) -> Page:
    """Return the page with the title and the text of its translation at `path`.

    Raises PageError for a file that is not text, or has no front matter or no title.
    """
    name = str(path)
    _, body, line = split_front(read_text(path), name)
    title = read_title(body, name, line)
    return replace(page, path=name, title=title, body=body, body_line=line)
