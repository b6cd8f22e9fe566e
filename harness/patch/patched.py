"""What a patch made of an engine: its sources, and the sites with all that later steps need."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Kind = Literal["expression", "statements", "header", "deletion"]


@dataclass(frozen=True)
class Site:
    """One changed place: putting `before` back for the bytes `start:end` undoes it."""

    file: str
    line: int
    """1-based, in the patched text."""
    scope: str
    """The dotted name of the innermost definition around it, "" for the module."""
    before: str
    after: str
    start: int
    end: int
    """UTF-8 byte offsets in the patched text."""
    kind: Kind
    anchor: int | None = None
    """Where code went without a trace: the offset of the statement beside it."""
    anchor_before: bool = False
    """That statement came before what went, and does not follow it."""
    origin: tuple[int, int] = (0, 0)
    """The bytes that `before` takes up in the original text."""
    origin_anchor: int | None = None
    """Where nothing was before: the offset of the statement beside it, in the original text."""
    origin_anchor_before: bool = False

    def undone(self) -> Site:
        """The same place in the original text, as a site whose `after` is the original code."""
        kind: Kind = self.kind
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
    """All files of the engine, the changed ones replaced."""

    sources: dict[str, str]
    sites: tuple[Site, ...]
    originals: Mapping[str, str] = field(repr=False)

    def diff(self) -> str:
        """The unified diff of the engine's real code, three lines of context."""
        out: list[str] = []
        for file, text in self.sources.items():
            if text != self.originals[file]:
                before, after = map(_lines, (self.originals[file], text))
                for line in difflib.unified_diff(before, after, f"a/{file}", f"b/{file}"):
                    ended = line.endswith("\n")
                    out.append(line if ended else f"{line}\n\\ No newline at end of file\n")
        return "".join(out)


def _lines(text: str) -> list[str]:
    """Lines as Python and diff count them; `str.splitlines` breaks at form feeds too."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
