"""The check of a page's front matter: its names exist, and nothing is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec

from harness.check import Finding, finding_from
from harness.core.errors import BreaklabError
from harness.core.vocabulary import PageKind
from harness.diagnostics import DIAGNOSTICS
from harness.pages.catalogue import Catalogue, diagnostic_name, nearest
from harness.pages.front_matter import Break, Exercise, TrainingBreak
from harness.pages.page import Page

_REMEDIES = {
    "probe": "`harness list --probes` shows the shared ones; define others in the section Probes",
    "diagnostic": f"the diagnostics are {', '.join(diagnostic.name for diagnostic in DIAGNOSTICS)}",
}


def check_names(page: Page, catalogue: Catalogue) -> tuple[Page, list[Finding]]:
    """Return the page without unknown names, and a finding for each unknown name.

    The names are those of variants, probes, diagnostics and breaks. A run stops at the first
    unknown name; the check lists all of them, and continues without them.
    """
    names = _KnownNames(page, catalogue)
    if isinstance(page.front, Exercise):
        breaks, kills = (
            tuple(name for name in table if names.is_page(name, "break", key))
            for key, table in (("breaks", page.front.breaks), ("kills", page.front.kills))
        )
        front = msgspec.structs.replace(page.front, breaks=breaks, kills=kills)
        findings = [*_check_exercise(page, page.front), *names.findings]
        return replace(page, front=front), findings
    expect = {
        variant: {
            probe: table[probe] for probe in names.existing("probe", table, "expect", variant)
        }
        for variant, table in page.expect.items()
        if variant is None or names.is_page(variant, "variant", "expect", variant)
    }
    if isinstance(page.front, Break):
        for variant in page.front.advice:
            names.is_page(variant, "variant", "advice", variant)
    claims = {
        variant: msgspec.structs.replace(
            table,
            caught_by=names.existing(
                "diagnostic", table.caught_by, "diagnostics", variant, "caught_by"
            ),
            missed_by=names.existing(
                "diagnostic", table.missed_by, "diagnostics", variant, "missed_by"
            ),
        )
        for variant, table in page.claims.items()
        if variant is None or names.is_page(variant, "variant", "diagnostics", variant)
    }
    return replace(page, expect=expect, claims=claims), names.findings


def _check_exercise(page: Page, front: Exercise) -> Iterator[Finding]:
    for key, names, remedy in (
        ("breaks", front.breaks, "name the breaks that pass the suite"),
        ("kills", front.kills, "name a break that the suite catches: it is weak, not empty"),
    ):
        if not names:
            yield Finding(
                page.path, page.line_of(key), f"the key `{key}` is missing or empty", remedy
            )
    for name in sorted(set(front.breaks) & set(front.kills)):
        problem = f"`{name}` is among both `breaks` and `kills`"
        yield Finding(page.path, page.line_of("kills"), problem, "remove it from one of them")


class _KnownNames:
    """Selects the names that exist, and collects findings about the others."""

    def __init__(self, page: Page, catalogue: Catalogue) -> None:
        self.page, self.catalogue = page, catalogue
        self.findings: list[Finding] = []
        self._names = {
            "probe": [*catalogue.shared_probes, *(probe.name for probe in page.probes)],
            "diagnostic": [
                *(diagnostic.name for diagnostic in DIAGNOSTICS),
                *map(diagnostic_name, catalogue.diagnostic_files),
            ],
        }

    def existing(self, kind: str, names: Iterable[str], *table: str | None) -> tuple[str, ...]:
        """Return the names that exist."""
        valid, existing = self._names[kind], []
        for name in names:
            if name in valid:
                existing.append(name)
                continue
            line = self.page.line_of(*(part for part in table if part), name)
            remedy = f"{nearest(name, valid)}{_REMEDIES[kind]}"
            self.findings.append(Finding(self.page.path, line, f"no {kind} `{name}`", remedy, 2))
        return tuple(existing)

    def is_page(self, name: str, kind: PageKind, *key: str) -> bool:
        """Whether a key of the front matter names a page of this kind."""
        try:
            self.catalogue.page(name, kind)
        except BreaklabError as error:
            self.findings.append(finding_from(error, self.page.path, self.page.line_of(*key)))
            return False
        return True


# ----- What a break's page must have -----

BEGINNER, EXPERT = 1, 3
"""The level at which each variant is explained, and that at which `why`, `beware` and questions are
optional."""


def check_completeness(page: Page) -> Iterator[Finding]:
    """Yield what the page of a break lacks: an invariant, a question, `why` and `beware`."""
    front = page.front
    if not isinstance(front, Break | TrainingBreak):
        return
    if not (front.no_invariant or any(fence.is_invariant for fence in page.fences)):
        remedy = "write a ```python invariant block below `## Diagnostic`, or state why there is "
        remedy += 'none: `no_invariant = "..."`'
        yield Finding(page.path, 1, "has no invariant", remedy)
    if front.level == EXPERT:
        return
    for key, remedy in (
        ("why", 'say in two sentences why the break does what it does: `why = "..."`'),
        ("beware", 'say in two sentences where it hides: `beware = "..."`'),
    ):
        if not getattr(front, key):
            yield Finding(page.path, page.line_of(key), f"`{key}` is missing", remedy)
    if isinstance(front, Break):
        yield from _check_advice(page, front)
    if isinstance(front, Break) and not front.ask:
        remedy = "add an `[[ask]]` with `probe`, `question` and an `answer` that may surprise"
        yield Finding(page.path, 1, "asks no question", remedy)


def _check_advice(page: Page, front: Break) -> Iterator[Finding]:
    """Compare the variants that the page explains with those of which it states outcomes."""
    stated = {variant for variant, table in page.expect.items() if variant and table}
    for variant in sorted(front.advice.keys() - stated):
        problem = f"`advice.{variant}` explains no outcomes: the page states none for it"
        remedy = f"state them in `[expect.{variant}]`, or remove the text"
        yield Finding(page.path, page.line_of("advice", variant), problem, remedy)
    for variant in sorted(stated) if front.level == BEGINNER else ():
        for key in ("why", "beware"):
            if not getattr(front.advice.get(variant), key, ""):
                problem = (
                    f"`advice.{variant}.{key}` is missing: the page states other outcomes there"
                )
                remedy = f'explain these outcomes: `{key} = "..."` below `[advice.{variant}]`'
                line = page.line_of("expect", variant)
                yield Finding(page.path, line, problem, remedy)
