"""The checks of a page that run nothing: of its names, of what is missing, and of its patch."""

from __future__ import annotations

import ast
import builtins
import hashlib
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import msgspec
import numpy as np

from harness.check import Finding, finding_from
from harness.core.errors import BreaklabError
from harness.core.vocabulary import PageKind
from harness.diagnostics import DIAGNOSTICS
from harness.engines.engine import Engine
from harness.experiment.baseline import Context
from harness.experiment.cached import engine_facts
from harness.experiment.patching import put
from harness.pages.catalogue import Catalogue, diagnostic_name, nearest
from harness.pages.front_matter import Break, Exercise, ProbedFront, TrainingBreak
from harness.pages.page import Fence, Page
from harness.patch.side import quiet_parse
from harness.runs.cache import ResultKind, key_of

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
        """Return the names that exist, and record a finding for each of the others."""
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


# ----- Names in the patch -----

_TYPES = (str, bytes, list, tuple, dict, set, int, float, complex, slice, Exception)
_NUMPY = (np, np.ndarray, np.ufunc, np.linalg, np.random, np.random.Generator)
_AVAILABLE = {name for owner in (builtins, math, *_TYPES, *_NUMPY) for name in dir(owner)}


def check_spelling(page: Page, context: Context) -> Iterator[Finding]:
    """Yield each undefined name that the patch reads, for a page that crashes.

    Raises what `put` raises.
    """
    engine = context.engine
    before, after = _SourceNames(engine.sources), _SourceNames(put(page, engine).sources)
    existing = before.read | before.bound | after.bound | _AVAILABLE
    for name in sorted(after.read - existing):
        problem = f"`{name}` on the + side is defined nowhere, and the patched code crashes"
        remedy = f"{nearest(name, before.read | before.bound)}correct the spelling, or define it"
        yield Finding(page.path, _line_with(name, _blocks(page, engine)), problem, remedy)


class _SourceNames:
    """The names in an engine's files."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.read: set[str] = set()
        """Names and attributes whose value is used."""
        self.bound: set[str] = set()
        """Names that are assigned, defined, imported or arguments, and attributes that are set."""
        for text in sources.values():
            for node in ast.walk(quiet_parse(text)):
                self._add(node)

    def _add(self, node: ast.AST) -> None:
        match node:
            case ast.Name(id=name, ctx=ctx) | ast.Attribute(attr=name, ctx=ctx):
                (self.read if isinstance(ctx, ast.Load) else self.bound).add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                self.bound.add(name)
            case ast.alias(name=name, asname=asname):
                self.bound |= {*name.split("."), *filter(None, [asname])}
                if name in sys.stdlib_module_names and name in sys.modules:
                    self.bound |= set(dir(sys.modules[name]))
            case ast.ExceptHandler(name=str(name)):
                self.bound.add(name)


def _blocks(page: Page, engine: Engine) -> list[Fence]:
    """Return the page's blocks for this engine; none if the page is about another one."""
    is_own = not engine.foreign or page.is_about(engine.name)
    return page.diffs(engine.name) if is_own else []


def _line_with(name: str, blocks: Sequence[Fence]) -> int:
    """Return the number of the first + line with that name, or of the first block."""
    for block in blocks:
        for number, row in enumerate(block.text.splitlines(), start=block.line):
            if row.startswith("+") and re.search(rf"\b{name}\b", row):
                return number
    return blocks[0].line


# ----- Equal patches -----


@dataclass(frozen=True)
class _PatchWords:
    """The words and signs that a patch removes and adds, without its placeholders."""

    removed: frozenset[str]
    added: frozenset[str]

    def may_equal(self, other: _PatchWords) -> bool:
        """Whether the two may be the same patch, given that a placeholder may be any word."""
        return self._fits(other) or other._fits(self)

    def _fits(self, other: _PatchWords) -> bool:
        """Whether the other removes and adds what this one does, ignoring what is only moved."""
        removed, added = self.removed - self.added, self.added - self.removed
        if not (removed or added):
            removed, added = self.removed, self.added
        return removed <= other.removed and added <= other.added


def check_uniqueness(page: Page, context: Context) -> Iterator[Finding]:
    """Yield the pages whose patch changes the engine in exactly the same way."""
    patches = _patches(context)
    if (own := patches.get(page.id)) is None or not own.result(context).digest:
        return
    for other in patches.values():
        if other is own or not own.words.may_equal(other.words):
            continue
        if own.result(context) == other.result(context):
            problem = f"its patch is the same as that of `{other.page.id}` ({other.page.path})"
            remedy = "keep one of the two pages, or change what this one breaks"
            line = _blocks(page, context.engine)[0].line - 1
            yield Finding(page.path, line, problem, remedy)


class PatchedSources(msgspec.Struct, frozen=True):
    """The result of a patch on the engine."""

    digest: str
    """A digest of the patched sources; empty if the patch cannot be applied."""


PATCHED: ResultKind[PatchedSources] = ResultKind(
    "patched", PatchedSources, ("core", "patch", "pages", "engines", "experiment"), lambda _: True
)


@dataclass(frozen=True)
class _PagePatch:
    """A page's patch, and the words in it."""

    page: Page
    words: _PatchWords
    engine: bytes
    """A digest of the engine."""

    def result(self, context: Context) -> PatchedSources:
        """Return the result of the patch; it is cached, since applying a patch is slow."""
        key = key_of(PATCHED, (self.engine, self.page.sites, self.page.patch_texts))
        (result,) = context.baseline.cache.fetch(PATCHED, [key], lambda _: [self._apply(context)])
        return result

    def _apply(self, context: Context) -> PatchedSources:
        try:
            sources = put(self.page, context.engine).sources
        except BreaklabError:  # becomes a finding when that page is checked
            return PatchedSources("")
        facts = msgspec.json.encode(sorted(sources.items()))
        return PatchedSources(hashlib.sha256(facts).hexdigest())


def _patches(context: Context) -> dict[str, _PagePatch]:
    """Return the patches of all pages, by id; computed once for all pages of a check."""
    pages = context.catalogue.pages[0]
    of_pages: object
    patches: dict[str, _PagePatch]
    of_pages, patches = context.baseline.memo.get(_patches, (None, {}))
    if of_pages is not pages:
        engine = key_of(PATCHED, engine_facts(context.engine))
        patches = {
            page.id: _PagePatch(page, _words(tuple(blocks)), engine)
            for page in pages
            if isinstance(page.front, ProbedFront) and (blocks := _blocks(page, context.engine))
        }
        context.baseline.memo[_patches] = pages, patches
    return patches


@lru_cache(maxsize=1024)
def _words(blocks: tuple[Fence, ...]) -> _PatchWords:
    removed, added = (
        frozenset(
            word
            for block in blocks
            for row in block.text.splitlines()
            if row.startswith(sign)
            for word in re.findall(r"[$]?\w+|[^\w\s]", row[1:])
            if not word.startswith("$")
        )
        for sign in "-+"
    )
    return _PatchWords(removed, added)
