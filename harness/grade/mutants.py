"""Breaks as code: what each changes in an engine that this process has loaded.

The patched files are compiled once and cached, since reading a patch takes longer than running a
few tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Literal

import msgspec

from harness.core.errors import BreaklabError, UsageError
from harness.core.message import message
from harness.engines.engine import Engine
from harness.engines.loading import relocated
from harness.grade.protocol import PackedCodes, pack, unpack
from harness.grade.suite import BreakResult, Fate, RuleChange
from harness.pages.catalogue import Catalogue, nearest
from harness.pages.front_matter import Break
from harness.pages.page import Page
from harness.runs.cache import Cache, ResultKind, key_of


class PatchedFiles(msgspec.Struct, frozen=True):
    """The files of an engine that a break changes; empty if it has no site there."""

    texts: dict[str, str] = {}
    codes: PackedCodes = {}
    """The same files, compiled."""
    file: str = ""
    """The file and the line of the first site."""
    line: int = 0


PATCHED_FILES: ResultKind[PatchedFiles] = ResultKind(
    "patched files", PatchedFiles, ("core", "patch", "engines", "pages"), lambda _: True
)


@dataclass(frozen=True)
class Mutant:
    """A break in an engine, or an operator at one site of a rule."""

    page: Page
    files: PatchedFiles
    name: str = ""
    """The id of a mutant of a rule."""
    change: RuleChange | None = None

    @property
    def id(self) -> str:
        """The id of the break, or of the mutant of a rule."""
        return self.name or self.page.id

    @property
    def codes(self) -> dict[str, CodeType]:
        """The compiled files that it changes."""
        return unpack(self.files.codes)

    def result(
        self,
        fate: Fate,
        *,
        by: Sequence[str] = (),
        reached_by: Sequence[str] = (),
        path: Literal["swapped", "reloaded"] | None = None,
        seconds: float = 0.0,
        timed_out: bool = False,
    ) -> BreakResult:
        """Return what became of the break."""
        return BreakResult(
            break_=self.id,
            family=self.page.front.family,
            level=self.page.front.level,
            fate=fate,
            by=list(by),
            reached_by=list(reached_by),
            path=path,
            seconds=round(seconds, 4),
            file=self.files.file,
            line=self.files.line,
            change=self.change,
            timed_out=timed_out,
        )


def mutants(pages: Iterable[Page], engine: Engine, cache: Cache) -> list[Mutant]:
    """Put each break into the engine's text, and compile it; nothing is executed."""
    chosen = list(pages)
    sources = key_of(PATCHED_FILES, (str(engine.root), sorted(engine.sources.items())))
    keys = [key_of(PATCHED_FILES, (sources, page.toml, page.body)) for page in chosen]
    files = cache.fetch(
        PATCHED_FILES, keys, lambda missing: [_patched(chosen[i], engine) for i in missing]
    )
    return [Mutant(page, patched) for page, patched in zip(chosen, files, strict=True)]


def _patched(page: Page, engine: Engine) -> PatchedFiles:
    from harness.experiment.patching import put  # slow to import, and needed only once per break

    try:
        patched = put(page, engine)
        changed = {
            file: text for file, text in patched.sources.items() if text != engine.sources[file]
        }
        codes = {f: relocated(patched.codes[f], str(engine.root / f)) for f in changed}
    except (BreaklabError, SyntaxError, ValueError, RecursionError):
        return PatchedFiles()
    site = patched.sites[0]
    return PatchedFiles(changed, pack(codes), site.file, site.line)


def select(catalogue: Catalogue, selection: str) -> list[Page]:
    """Return the breaks that a selection names, in the order of the catalogue.

    Raises UsageError for a name that selects nothing.
    """
    pages = [page for page in catalogue.valid_pages() if isinstance(page.front, Break)]
    chosen: set[str] = set()
    for word in selection.split(","):
        kind, _, name = word.strip().partition(":")
        matching = {page.id for page in pages if _matches(page, kind, name, catalogue)}
        if not matching:
            ids = {page.id for page in pages}
            names = ids | {f"family:{page.front.family}" for page in pages}
            names |= {
                f"unit:{unit}"
                for unit, of in catalogue.course.items()
                if ids.intersection(of.listed)
            }
            problem = message("no break is selected by `{word}`", word=word.strip())
            remedy = message(
                "{question}name ids, family:NAME, unit:NAME, level:N, track or all",
                question=nearest(word, names),
            )
            raise UsageError(problem, remedy)
        chosen |= matching
    return [page for page in pages if page.id in chosen]


def _matches(page: Page, kind: str, name: str, catalogue: Catalogue) -> bool:
    match kind:
        case "family":
            return page.front.family == name
        case "level":
            return str(page.front.level) == name
        case "unit":
            return name in catalogue.course and page.id in catalogue.course[name].listed
        case "all":
            return True
        case "track":
            return page.id in catalogue.track
    return page.id == catalogue.current_id(kind)
