"""The draft of a page, from the options of `harness new`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from harness.core.errors import UsageError
from harness.core.message import message
from harness.core.vocabulary import PageKind
from harness.pages.front_matter import ID


@dataclass(frozen=True)
class DraftHunk:
    """A hunk before it is written: its scope, the original code and the changed code."""

    scope: str = ""
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Draft:
    """The properties of a page before it is written."""

    id: str
    family: str
    kind: PageKind = "break"
    level: int = 1
    hunks: tuple[DraftHunk, ...] = ()
    """The patch; empty if the author will write it."""
    probes: tuple[str, ...] = ()
    engine: str | None = None
    """The engine that the page is about; None for minigrad."""

    def __post_init__(self) -> None:
        """Raise UsageError for an invalid id, family, kind or level."""
        for option, value in (("ID", self.id), ("--family", self.family)):
            if not re.fullmatch(ID, value):
                remedy = "lower-case words joined by hyphens, as in `skip-a-step`"
                raise UsageError(
                    message("{option} is `{value}`", option=option, value=value), remedy
                )
        if self.level not in (1, 2, 3):
            remedy = "1 (first lesson), 2 or 3 (expert)"
            raise UsageError(message("--level is {level}", level=self.level), remedy)
        if self.kind not in get_args(PageKind):
            kinds = message("one of {kinds}", kinds=", ".join(get_args(PageKind)))
            raise UsageError(message("--kind is `{kind}`", kind=self.kind), kinds)


Options = Mapping[str, Any]
"""The options of `harness new`, by the field of the draft; None for an option that is not set."""


def read_draft(page_id: str, options: Options) -> Draft:
    """Return the draft for these options. Raises UsageError for a missing or invalid option."""
    fields = {name: value for name, value in options.items() if value is not None}
    if "family" not in fields:
        remedy = "name the folder of the page: `--family broadcasting`"
        raise UsageError("--family is missing", remedy)
    scopes, before, after = (fields.pop(name, ()) for name in ("scope", "before", "after"))
    hunks = _pair_up(scopes, before, after)
    return Draft(page_id, hunks=hunks, **fields | {"probes": tuple(fields.get("probes", ()))})


def _pair_up(
    scopes: Sequence[str], before: Sequence[str], after: Sequence[str]
) -> tuple[DraftHunk, ...]:
    """Return a hunk for each `--before`, with its `--after`, and its own or the common scope.

    Raises UsageError if the numbers of options do not match.
    """
    if after and not before:
        raise UsageError("--before is missing", "name the code to change: `--before CODE`")
    if len(after) != len(before) and len(before) > 1:
        problem = message(
            "the numbers of --before ({before}) and --after ({after}) differ",
            before=len(before),
            after=len(after),
        )
        raise UsageError(problem, "write both for each hunk; `--after ''` removes the code")
    if len(scopes) > 1 and len(scopes) != len(before):
        problem = message(
            "the numbers of --before ({before}) and --scope ({scopes}) differ",
            before=len(before),
            scopes=len(scopes),
        )
        raise UsageError(problem, "write --scope once for all hunks, or once for each hunk")
    if not before:
        return tuple(DraftHunk(scope) for scope in scopes)
    scopes = scopes if len(scopes) > 1 else [*scopes, ""][:1] * len(before)
    return tuple(map(DraftHunk, scopes, before, after or [""]))
