"""The check of a page's patch: undefined names, and another page with the same patch."""

from __future__ import annotations

import ast
import builtins
import hashlib
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np

from harness.check import Finding
from harness.core.errors import BreaklabError
from harness.engines.engine import Engine
from harness.experiment.baseline import Context
from harness.experiment.cached import engine_facts
from harness.experiment.patching import put
from harness.pages.catalogue import nearest
from harness.pages.front_matter import ProbedFront
from harness.pages.page import Fence, Page
from harness.patch.side import quiet_parse
from harness.runs.cache import ResultKind, key_of

_TYPES = (str, bytes, list, tuple, dict, set, int, float, complex, slice, Exception)
_NUMPY = (np, np.ndarray, np.ufunc, np.linalg, np.random, np.random.Generator)
_AVAILABLE = {name for owner in (builtins, math, *_TYPES, *_NUMPY) for name in dir(owner)}


# ----- Names -----


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
