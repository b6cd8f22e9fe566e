"""The names in a page's front matter: do its variants, probes and diagnostics exist?

The lab refuses the first that does not; a check lists all of them, and goes on with the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from harness.core.errors import BreaklabError
from harness.core.finding import Finding, finding_from
from harness.diagnostics import DIAGNOSTICS
from harness.pages.catalogue import Catalogue, nearest
from harness.pages.page import Page

_REMEDIES = {
    "probe": "`harness list --probes` shows the shared ones; others go into the section Probes",
    "diagnostic": f"the diagnostics are {', '.join(each.name for each in DIAGNOSTICS)}",
}


def check_names(page: Page, catalogue: Catalogue) -> tuple[Page, list[Finding]]:
    """The page without the entries whose names do not exist, and a finding for each of those."""
    names = _Names(page, catalogue)
    expect = {
        variant: {
            probe: table[probe] for probe in names.that_are("probe", table, "expect", variant)
        }
        for variant, table in page.expect.items()
        if names.is_variant(variant, "expect")
    }
    claims = {
        variant: msgspec.structs.replace(
            table,
            caught_by=names.that_are(
                "diagnostic", table.caught_by, "diagnostics", variant, "caught_by"
            ),
            missed_by=names.that_are(
                "diagnostic", table.missed_by, "diagnostics", variant, "missed_by"
            ),
        )
        for variant, table in page.claims.items()
        if names.is_variant(variant, "diagnostics")
    }
    return replace(page, expect=expect, claims=claims), names.findings


class _Names:
    """What exists, and what was found not to."""

    def __init__(self, page: Page, catalogue: Catalogue) -> None:
        self.page, self.catalogue = page, catalogue
        self.findings: list[Finding] = []
        self._known = {
            "probe": [*catalogue.shared_probes, *(probe.name for probe in page.probes)],
            "diagnostic": [diagnostic.name for diagnostic in DIAGNOSTICS],
        }

    def that_are(self, kind: str, names: Iterable[str], *table: str | None) -> tuple[str, ...]:
        """Those of the names that exist."""
        known, kept = self._known[kind], []
        for name in names:
            if name in known:
                kept.append(name)
                continue
            line = self.page.line_of(*(part for part in table if part), name)
            remedy = f"{nearest(name, known)}{_REMEDIES[kind]}"
            self.findings.append(Finding(self.page.path, line, f"no {kind} `{name}`", remedy, 2))
        return tuple(kept)

    def is_variant(self, name: str | None, table: str) -> bool:
        """Whether a table of outcomes or claims is for the engine itself or for a variant of it."""
        if name is None:
            return True
        try:
            self.catalogue.page(name, "variant")
        except BreaklabError as error:
            finding = finding_from(error, self.page.path, self.page.line_of(table, name))
            self.findings.append(finding)
            return False
        return True
