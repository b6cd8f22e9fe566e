"""The draft of a page, from the options of `harness new`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from harness.core.errors import UsageError
from harness.core.vocabulary import PageKind
from harness.pages.front_matter import ID


@dataclass(frozen=True)
class Draft:
    """The properties of a page before it is written."""

    id: str
    family: str
    kind: PageKind = "break"
    level: int = 1
    scope: str = ""
    before: str = ""
    after: str = ""
    probes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise UsageError for an invalid id, family, kind or level."""
        for option, value in (("ID", self.id), ("--family", self.family)):
            if not re.fullmatch(ID, value):
                remedy = "lower-case words joined by hyphens, as in `skip-a-step`"
                raise UsageError(f"{option} is `{value}`", remedy)
        if self.level not in (1, 2, 3):
            remedy = "1 (first lesson), 2 or 3 (expert)"
            raise UsageError(f"--level is {self.level}", remedy)
        if self.kind not in get_args(PageKind):
            remedy = f"one of {', '.join(get_args(PageKind))}"
            raise UsageError(f"--kind is `{self.kind}`", remedy)


Options = Mapping[str, Any]
"""The options of `harness new`, by the field of the draft; None for an option that is not set."""


def read_draft(page_id: str, options: Options) -> Draft:
    """Return the draft for these options. Raises UsageError for a missing or invalid option."""
    fields = {name: value for name, value in options.items() if value is not None}
    if "family" not in fields:
        remedy = "name the folder of the page: `--family broadcasting`"
        raise UsageError("--family is missing", remedy)
    if fields.get("after") and not fields.get("before"):
        remedy = "name the code to change: `--before CODE`"
        raise UsageError("--before is missing", remedy)
    return Draft(page_id, **fields | {"probes": tuple(fields.get("probes", ()))})
