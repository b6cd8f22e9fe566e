"""A site: a place in an engine's source that a patch changed, and what the code calls there."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

SiteKind = Literal["expression", "statements", "header", "deletion"]

BOM = "\ufeff"
"""The byte order mark, which may precede the text of a file."""


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
class Hooks:
    """The names that instrumented code calls; an empty name disables that recording."""

    marker: str
    call: str = ""
    value: str = ""
    locals: str = "locals"
    part: str = ""


HOOKS = Hooks("__breaklab_site__", "__breaklab_call__", "__breaklab_value__", "__breaklab_locals__")
"""The builtins that instrumented code calls."""

INSIDE = replace(HOOKS, part="__breaklab_part__")
"""The same, with the values of the expressions that a patch changes."""

MARKER = Hooks(HOOKS.marker)
"""The hooks that record only whether a site was executed."""


def line_starts(data: bytes) -> list[int]:
    """Return the offset at which each line begins, with line breaks as in Python source."""
    return [0, *(match.end() for match in re.finditer(rb"\r\n|\n|\r", data))]
