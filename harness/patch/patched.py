"""The result of a patch: the engine's new sources, and the changed places."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

SiteKind = Literal["expression", "statements", "header", "deletion"]


@dataclass(frozen=True)
class Site:
    """A changed place; replacing the bytes `start:end` by `before` undoes the change."""

    file: str
    line: int
    """1-based, in the patched text."""
    scope: str
    """The dotted name of the innermost definition around it; "" for the module."""
    before: str
    after: str
    start: int
    end: int
    """UTF-8 byte offsets in the patched text."""
    kind: SiteKind
    anchor: int | None = None
    """If code was deleted without a replacement: the offset of the statement beside it."""
    anchor_before: bool = False
    """Whether that statement came before the deleted code."""
    origin: tuple[int, int] = (0, 0)
    """The span of `before` in the original text, in bytes."""
    origin_anchor: int | None = None
    """If code was only added: the offset of the statement beside it in the original text."""
    origin_anchor_before: bool = False
    """Whether that statement came before the added code."""

    def undone(self) -> Site:
        """The place in the original text, as a site whose `after` is the original code."""
        kind: SiteKind = self.kind
        if kind == "deletion":
            kind = "statements"
        elif kind == "statements" and not self.before.strip():
            kind = "deletion"
        return replace(
            self,
            before=self.after,
            after=self.before,
            start=self.origin[0],
            end=self.origin[1],
            kind=kind,
            anchor=self.origin_anchor,
            anchor_before=self.origin_anchor_before,
        )


@dataclass(frozen=True)
class Patched:
    """All files of the engine after a patch."""

    sources: dict[str, str]
    sites: tuple[Site, ...]
    originals: Mapping[str, str] = field(repr=False)

    def diff(self) -> str:
        """The unified diff of the engine's code, with three lines of context."""
        out: list[str] = []
        for file, text in self.sources.items():
            if text != self.originals[file]:
                before, after = map(lines_of, (self.originals[file], text))
                for line in difflib.unified_diff(before, after, f"a/{file}", f"b/{file}"):
                    ended = line.endswith("\n")
                    out.append(line if ended else f"{line}\n\\ No newline at end of file\n")
        return "".join(out)


def lines_of(text: str) -> list[str]:
    """Split into lines as Python and diff do; `str.splitlines` also splits at form feeds."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
