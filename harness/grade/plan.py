"""Everything that grading needs besides the suite, prepared once for any number of suites.

A rewritten file is compiled so that its functions are where the clean file has them, and so that
everything in a function is on its first line. Otherwise the line numbers of frames, tracebacks and
warnings would tell which version of the code is executed.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType

from harness.core.errors import EnvironmentProblem
from harness.core.site import Site
from harness.core.vocabulary import LOSSES, Outcome
from harness.engines.engine import Engine
from harness.engines.loading import FileCodes, Functions, compile_files
from harness.experiment.patching import put
from harness.grade.blinding import without_lines
from harness.grade.mutants import Mutant, mutants, select
from harness.grade.protocol import PackedCodes, pack
from harness.grade.reach import Code
from harness.grade.reasons import with_both_versions
from harness.grade.twins import compose
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import Variant
from harness.pages.page import Page
from harness.patch.side import quiet_parse
from harness.runs.cache import Cache
from harness.sandbox.limits import Limits

_DefinitionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_BlockNode = ast.stmt | ast.excepthandler | ast.match_case
"""What contains statements; an expression contains no definition."""


def compile_in_place(text: str, clean: str, path: str) -> CodeType:
    """Return the code of a text whose definitions begin where those of the clean text do.

    Raises SyntaxError, ValueError or RecursionError for a text that cannot be compiled.
    """
    tree = quiet_parse(text)
    _move(tree, _parsed(clean))
    return without_lines(compile(tree, path, "exec", dont_inherit=True))


_parsed = lru_cache(maxsize=64)(quiet_parse)
"""The tree of a clean file, which is the same for many breaks; it must not be changed."""


def _move(tree: ast.AST, clean: ast.AST) -> None:
    """Move the definitions in a tree to those of the same names; what follows one moves with it."""
    places: dict[str, _DefinitionNode] = {}
    for definition in _definitions(clean):
        places.setdefault(definition.name, definition)
    shift = 0
    for node in ast.iter_child_nodes(tree):
        place = places.get(node.name) if isinstance(node, _DefinitionNode) else None
        if place is None:
            if isinstance(node, _BlockNode):  # not a decorator or an annotation, which come before
                _shift(node, shift)
        elif isinstance(node, _DefinitionNode):
            shift = _last(place) - _last(node)
    for node in _definitions(tree):
        if place := places.get(node.name):
            _shift(node, _first(place) - _first(node))
            _move(node, place)


def _shift(node: ast.AST, lines: int) -> None:
    if lines:
        ast.increment_lineno(node, lines)


def _definitions(tree: ast.AST) -> Iterator[_DefinitionNode]:
    """Yield the definitions in a tree that are not inside another one."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _DefinitionNode):
            yield node
        elif isinstance(node, _BlockNode):
            yield from _definitions(node)


def _first(definition: _DefinitionNode) -> int:
    return min(node.lineno for node in (definition, *definition.decorator_list))


def _last(definition: _DefinitionNode) -> int:
    return definition.end_lineno or definition.lineno


# ----- The plan -----

LIMITS = Limits(seconds=60.0, cpu_seconds=20)
"""The limits of a suite on the engine without a break, and an upper bound for any other run."""

ROUNDS = 2
"""The usual number of rewrites under which a test must fail on a break, and pass on its twin."""


@dataclass(frozen=True)
class BreakAndTwin:
    """A break and its twin, both composed with one secret rewrite, compiled."""

    broken: PackedCodes
    twin: PackedCodes


@dataclass(frozen=True)
class Marked:
    """The published break and the engine without it, compiled so that values are recorded."""

    broken: PackedCodes
    clean: PackedCodes


@dataclass(frozen=True)
class GradingPlan:
    """The engine, the breaks and the correct engines; nothing that depends on a suite."""

    engine: Engine
    breaks: tuple[Mutant, ...]
    variants: tuple[Mutant, ...]
    """Correct engines, besides the engine itself."""
    seed: bytes
    """The secret seed of rewrites and orders; a suite that knows it can recognise a break."""
    limits: Limits = LIMITS
    allow_conftest: bool = True
    stages: bool = True
    """Whether to find out how far each surviving break gets, which needs a second pass."""
    hidden: tuple[Path, ...] = ()
    """Folders that a suite must not read, such as those of the pages; see `Limits.hidden`."""
    partial: bool = False
    """Whether a suite is graded without the tests that fail on a correct engine."""
    rounds: int = ROUNDS
    """The number of rewrites of a break on which a test must fail."""
    allow_copy: bool = True
    """Whether a submission may contain a copy of the engine."""
    _pairs: dict[tuple[str, int], BreakAndTwin] = field(default_factory=dict, repr=False)
    _marked: dict[str, Marked] = field(default_factory=dict, repr=False)
    _compared: dict[str, PackedCodes | None] = field(default_factory=dict, repr=False)
    _correct: dict[str, PackedCodes] = field(default_factory=dict, repr=False)
    _changed: dict[str, frozenset[int] | None] = field(default_factory=dict, repr=False)

    @cached_property
    def code(self) -> Code:
        """The functions of the engine."""
        return Code(self.engine.root, self.engine.sources, self._files)

    @cached_property
    def packed_files(self) -> PackedCodes:
        """The files of the engine without a break."""
        return pack(self._files)

    @cached_property
    def _files(self) -> FileCodes:
        root, sources = self.engine.root, self.engine.sources
        compiled = compile_files(root, sources, ())
        return {file: without_lines(code) for file, code in compiled.items()}

    def pair(self, mutant: Mutant, number: int = 0) -> BreakAndTwin:
        """Return a break that has a site, and its twin, under one of the rewrites."""
        key = mutant.page.id, number
        if key not in self._pairs:
            self._pairs[key] = self._composed(mutant, number)
        return self._pairs[key]

    def correct(self, variant: Mutant) -> PackedCodes:
        """Return the code of a correct engine, composed as breaks are.

        So a suite that fails on any composed code fails on correct engines.
        """
        name = variant.page.id
        if name not in self._correct:
            composed = compose(self.engine, variant.page, self.seed)
            assert composed is not None  # it has a site
            self._correct[name] = self._in_place(composed.broken)
        return self._correct[name]

    def marked(self, mutant: Mutant) -> Marked:
        """Return the broken and the clean code with calls that record what the break's sites do."""
        name = mutant.page.id
        if name not in self._marked:
            sites = put(mutant.page, self.engine).sites
            files = {site.file for site in sites}
            before = {file: self.engine.sources[file] for file in files}
            after = {file: mutant.files.texts[file] for file in files}
            self._marked[name] = Marked(
                self._recording(after, sites),
                self._recording(before, [site.undone() for site in sites]),
            )
        return self._marked[name]

    def compared(self, mutant: Mutant) -> PackedCodes | None:
        """Return code that compares a break with the engine without it; None if it cannot."""
        name = mutant.page.id
        if name not in self._compared:
            both = with_both_versions(mutant, self.engine)
            self._compared[name] = None if both is None else both.files.codes
        return self._compared[name]

    def prepare(self) -> None:
        """Compile everything now, for example before the process is forked."""
        for variant in self.variants:
            self.correct(variant)
            self.changed_functions(variant)
        for mutant in filter(lambda mutant: mutant.files.codes, self.breaks):
            self.changed_functions(mutant)
            for number in range(self.rounds):
                self.pair(mutant, number)
            if self.stages:
                self.marked(mutant)
                self.compared(mutant)

    def changed_functions(self, mutant: Mutant) -> frozenset[int] | None:
        """Return the numbers of the functions that differ; None if more than functions differ."""
        name = mutant.page.id
        if name not in self._changed:
            pairs = self._functions.plan(mutant.codes)
            self._changed[name] = None if pairs is None else frozenset(self.code.changed(pairs))
        return self._changed[name]

    @cached_property
    def _functions(self) -> Functions:
        return self.code.functions(())

    def _composed(self, mutant: Mutant, number: int) -> BreakAndTwin:
        composed = compose(self.engine, mutant.page, self.seed + bytes([number]))
        assert composed is not None  # it has a site
        return BreakAndTwin(self._in_place(composed.broken), self._in_place(composed.twin))

    def _in_place(self, texts: Mapping[str, str]) -> PackedCodes:
        root, clean = self.engine.root, self.engine.sources
        return pack(
            {
                file: compile_in_place(text, clean[file], str(root / file))
                for file, text in texts.items()
            }
        )

    def _recording(self, texts: Mapping[str, str], sites: Sequence[Site]) -> PackedCodes:
        return pack(compile_files(self.engine.root, texts, sites))


def plan_grading(
    catalogue: Catalogue,
    engine: Engine,
    cache: Cache,
    *,
    selection: str = "all",
    correct: Iterable[str] | None = None,
    seed: bytes | None = None,
    limits: Limits = LIMITS,
    allow_conftest: bool = True,
    stages: bool = True,
    partial: bool = False,
    allow_copy: bool = True,
) -> GradingPlan:
    """Return the plan for the selected breaks, and the correct engines of a catalogue.

    Parameters
    ----------
    selection : str
        As for `pytest --breaks`: ids, `family:NAME`, `level:N`, `track` or `all`.
    correct : iterable of str, optional
        The ids of the variants that a suite must pass; by default those of this engine whose pages
        state the same results as without them, apart from conventions.
    seed : bytes, optional
        The secret; by default a new one.

    Raises UsageError for a name that does not exist, and EnvironmentProblem if pytest is
    not installed.
    """
    if not find_spec("pytest"):
        raise EnvironmentProblem(
            "test suites need pytest, which is not installed", "pip install pytest"
        )
    if correct is None:
        pages = [page for page in catalogue.valid_pages() if isinstance(page.front, Variant)]
        variants = [page for page in pages if _is_required(page, engine)]
    else:
        variants = [catalogue.page(name, "variant") for name in correct]
    return GradingPlan(
        engine,
        tuple(mutants(select(catalogue, selection), engine, cache)),
        tuple(one for one in mutants(variants, engine, cache) if one.files.codes),
        os.urandom(16) if seed is None else seed,
        limits,
        allow_conftest,
        stages,
        hidden=catalogue.roots,
        partial=partial,
        allow_copy=allow_copy,
    )


def _is_required(page: Page, engine: Engine) -> bool:
    """Whether every suite must pass a variant.

    One in single precision, for example, is correct, but a good check of gradients may fail there.
    """
    if engine.foreign and not page.is_about(engine.name):
        return False
    same: set[Outcome] = {"disguised-correct", "convention", "not-reached"}
    outcomes = {
        page.expected(variant, probe, loss)
        for variant, table in page.expect.items()
        for probe in table
        for loss in LOSSES
    }
    return outcomes <= {*same, None}
