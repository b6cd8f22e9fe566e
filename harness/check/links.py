"""The check of links in a text, and of the sources in front matter.

Web addresses must be well-formed, but are not visited.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from harness.core import read_text
from harness.core.errors import PageError
from harness.core.finding import Finding
from harness.pages.conventions import Conventions
from harness.pages.front_matter import Control, Variant
from harness.pages.markdown import Text
from harness.pages.page import Page, split_front

SOURCE_FORMS = (
    "a repository, `owner/repo`, optionally followed by `#123` (issue or pull request), `@1a2b3c4` "
    "(commit or release) or `:item`; or an address `https://...`"
)
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(#\d+|@[\w.-]+|:[\w.-]+)?")
_WEB = re.compile(r"https?://[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}(:\d+)?([/?#]\S*)?")


def check_links(text: Text) -> Iterator[Finding]:
    """Yield broken links: without a file, without a heading, or with a malformed address."""
    for target, line in link_targets(text):
        if wrong := _wrong_link(text, target):
            yield text.finding(line, *wrong)


def link_targets(text: Text) -> Iterator[tuple[str, int]]:
    """Yield the targets of links, images and bare addresses, each with its line."""
    for token in text.tokens:
        inside = 0
        for part in token.children or () if token.type == "inline" else ():
            inside += {"link_open": 1, "link_close": -1}.get(part.type, 0)
            targets = [str(part.attrs.get(name, "")) for name in ("href", "src") if part.attrs]
            if part.type == "text" and not inside:  # an address that is not marked as a link
                targets += [
                    word.rstrip(".,;:)]") for word in re.findall(r"\bhttps?:\S*", part.content)
                ]
            for target in map(unquote, filter(None, targets)):
                yield target, text.line_of(token, target)


def _wrong_link(text: Text, target: str) -> tuple[str, str] | None:
    """Return the problem and the remedy of a wrong link; None if it is right."""
    malformed = (
        f"`{target}` is not a well-formed address",
        "write it in full: `https://host.org/path`",
    )
    try:
        parts = urlsplit(target)
    except ValueError:  # an unclosed bracket of an IPv6 address
        return malformed
    if parts.scheme in ("http", "https"):
        return None if _WEB.fullmatch(target) else malformed
    if parts.scheme or target.startswith(("/", "\\")):
        remedy = "link to a file beside the page, or to an http(s) address"
        return f"the link `{target}` does not work on another computer", remedy
    file = Path(text.path).parent / parts.path if parts.path else Path(text.path)
    if not exists(file):
        return (
            f"the link `{target}` does not lead to a file",
            "correct the path, relative to this page",
        )
    if parts.fragment and (file == Path(text.path) or file.suffix == ".md"):
        anchors = _anchors(text if not parts.path else _read_markdown(file))
        if parts.fragment not in anchors:
            return (
                f"the link `{target}` does not lead to a heading",
                f"the headings are {', '.join(anchors)}",
            )
    return None


def exists(file: Path) -> bool:
    """Whether there is such a file or folder."""
    try:
        return file.exists()
    except OSError:  # longer than a file name can be
        return False


def _read_markdown(file: Path) -> Text:
    body = read_text(file)
    with contextlib.suppress(PageError):  # a README has no front matter
        _, body, _ = split_front(body, str(file))
    return Text(str(file), body, 1)


def _anchors(text: Text) -> list[str]:
    """Return the anchors of the headings, formed as on GitHub."""
    anchors: list[str] = []
    for heading in text.headings:
        anchor = re.sub(r"[^\w\- ]", "", heading.text.lower()).replace(" ", "-")
        taken = sum(
            re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", other) is not None for other in anchors
        )
        anchors.append(f"{anchor}-{taken}" if taken else anchor)
    return anchors


def check_sources(page: Page, conventions: Conventions) -> Iterator[Finding]:
    """Yield missing and malformed sources; breaks, myths and exercises must have some."""
    line = page.line_of("sources")
    forms = "; or ".join(
        [SOURCE_FORMS, *(f"`{form}`, {what}" for form, what in conventions.sources.items())]
    )
    must_have = not isinstance(page.front, Variant | Control)
    if must_have and not page.front.sources:
        yield Finding(page.path, line, "no sources", f"add where it was found: {forms}")
    for source in page.front.sources:
        if not _is_source(source, conventions):
            yield Finding(page.path, line, f"the source `{source}` has an unknown form", forms)


def _is_source(source: str, conventions: Conventions) -> bool:
    if conventions.is_abbreviation(source) or _WEB.fullmatch(source):
        return True
    return bool(_REPOSITORY.fullmatch(source)) and not conventions.is_misspelt(source)
