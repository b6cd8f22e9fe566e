"""Twins: a break composed so that a suite cannot recognise it, and the same without the break.

    page and engine -> clean and broken text -> merged (one text with both) -> rewritten

The twin is the clean engine, changed in code at the same places and not in behaviour. Broken text
and twin are drawn from two streams of one secret seed.

Each place where the clean and the broken version differ becomes an `if` whose branches are the two
versions. Its condition always has the same value, but no compiler folds it. Broken text and twin
contain both versions, so neither their names and constants nor their length say which of the two
runs.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise
from random import Random
from typing import Literal, TypeVar

from harness.core.errors import DoesNotApply, EnvironmentProblem
from harness.core.message import message
from harness.engines.engine import Engine
from harness.experiment.patching import put
from harness.grade.rewriting import (
    BLOCKS,
    FunctionNode,
    Rewriter,
    Statements,
    bound,
    own_nodes,
    renamable,
    rename,
)
from harness.pages.page import Page
from harness.patch.apply import lines_of
from harness.patch.side import quiet_parse

LiveVersion = Literal["clean", "broken"]
MergedNode = TypeVar("MergedNode", bound=ast.AST)

MakeBranch = Callable[[Statements, Statements, bool], ast.If]
"""Returns the `if` of the clean and the broken statements; says whether it is in a function."""


@dataclass(frozen=True)
class ReplacedLines:
    """Lines of the clean text, from `first` up to but excluding `end`, and their replacement."""

    first: int
    end: int
    column: int
    owner: FunctionNode | ast.If
    """A function, whose body replaces the lines; or an `if` outside all functions."""

    @property
    def statements(self) -> Statements:
        """The statements that replace the lines."""
        return self.owner.body if isinstance(self.owner, FunctionNode) else [self.owner]


@dataclass
class Merger:
    """Merges two versions of a file; the conditions come from `branch`."""

    branch: MakeBranch
    fresh: Callable[[], str]
    """Returns a name that the file does not use."""
    changed: list[FunctionNode] = field(default_factory=list)
    """The innermost functions that contain a difference, and the functions inside them."""
    places: list[ReplacedLines] = field(default_factory=list)
    """Where the merged text differs from the clean one; a place may be inside another."""
    _functions: list[tuple[FunctionNode, ReplacedLines]] = field(default_factory=list)

    def merge(self, clean: Statements, broken: Statements) -> Statements:
        """Return the statements of a block, with an `if` where the versions differ."""
        ours, theirs = [ast.dump(node) for node in clean], [ast.dump(node) for node in broken]
        merged: Statements = []
        for kind, i, i_end, j, j_end in SequenceMatcher(None, ours, theirs, False).get_opcodes():
            if kind == "equal":
                merged += clean[i:i_end]
            elif i_end - i == j_end - j:
                for at, other in zip(range(i, i_end), broken[j:j_end], strict=True):
                    one = self._statement(clean[at], other)
                    merged.append(one or self._fork(clean, at, at + 1, [other]))
            else:
                merged.append(self._fork(clean, i, i_end, broken[j:j_end]))
        return merged

    def _fork(self, block: Statements, start: int, end: int, broken: Statements) -> ast.stmt:
        """Return the `if` of the statements `start:end` of a block, and of their replacement."""
        clean = block[start:end]
        for statement in (*clean, *broken):
            self.changed += [node for node in ast.walk(statement) if isinstance(node, FunctionNode)]
        if not self._functions:
            fork = self.branch(clean, broken, False)
            self.places.append(_place(fork, block, start, end))
            return fork
        innermost, place = self._functions[-1]
        if innermost not in self.changed:
            self.changed.append(innermost)
            self.places.append(place)
        return self.branch(clean, broken, True)

    def _statement(self, clean: ast.stmt, broken: ast.stmt) -> ast.stmt | None:
        """Return one statement for both; None if they differ in more than the blocks inside."""
        if type(clean) is not type(broken) or _header(clean) != _header(broken):
            return None
        if not isinstance(clean, FunctionNode):
            return self._blocks(clean, broken)
        assert isinstance(broken, FunctionNode)
        if not _agree(clean, broken) or not (
            self._separate(clean, broken) and self._separate(broken, clean)
        ):
            return None
        _take_docstring(clean, broken)
        self._functions.append((clean, _place(clean, clean.body, 0, len(clean.body))))
        self._blocks(clean, broken)
        self._functions.pop()
        return clean

    def _blocks(self, clean: MergedNode, broken: ast.AST) -> MergedNode | None:
        names = [name for name in BLOCKS if hasattr(clean, name)]
        if not names:
            return None
        for name in names:
            setattr(clean, name, self.merge(getattr(clean, name), getattr(broken, name)))
        return clean

    def _separate(self, one: FunctionNode, other: FunctionNode) -> bool:
        """Rename the local variables of `one` that mean something else in `other`.

        Returns False if one of them cannot be renamed.
        """
        elsewhere = {node.id for node in ast.walk(other) if isinstance(node, ast.Name)}
        for name in sorted((bound(one) - bound(other)) & elsewhere):
            if name not in renamable(one):
                return False
            rename(one, {name: self.fresh()})
        return True


def _place(owner: FunctionNode | ast.If, block: Statements, start: int, end: int) -> ReplacedLines:
    """Return the lines of the statements `start:end` of a block, or of the gap before `start`."""
    if start == end:
        beside = block[start - 1] if start else block[0] if block else None
        line = 0 if beside is None else _last(beside) + 1 if start else _first(beside)
        return ReplacedLines(line, line, beside.col_offset if beside else 0, owner)
    return ReplacedLines(
        _first(block[start]), _last(block[end - 1]) + 1, block[start].col_offset, owner
    )


def _first(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _last(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def _header(statement: ast.stmt) -> list[str | None]:
    """Return everything in a statement except its blocks."""
    return [
        ast.dump(item) if isinstance(item, ast.AST) else repr(item)
        for name, value in ast.iter_fields(statement)
        if name not in BLOCKS
        for item in (value if isinstance(value, list) else [value])
    ]


def _agree(one: FunctionNode, other: FunctionNode) -> bool:
    """Whether both functions are generators or neither is, and declare the same outer names."""
    return all(
        any(isinstance(node, kind) for node in own_nodes(one))
        == any(isinstance(node, kind) for node in own_nodes(other))
        for kind in ((ast.Yield, ast.YieldFrom), ast.Await)
    ) and _outer_names(one) == _outer_names(other)


def _outer_names(function: FunctionNode) -> set[str]:
    declarations = (n for n in own_nodes(function) if isinstance(n, ast.Global | ast.Nonlocal))
    return {name for declaration in declarations for name in declaration.names}


def _take_docstring(clean: FunctionNode, broken: FunctionNode) -> None:
    """Let both functions have the docstring of the clean one: it must remain the first line."""
    own = clean.body[: ast.get_docstring(clean) is not None]
    broken.body = [*own, *broken.body[ast.get_docstring(broken) is not None :]]


# ----- Composing a break and its twin -----


@dataclass(frozen=True)
class Composed:
    """Files of an engine that replace its own, with their full text."""

    broken: dict[str, str]
    """They behave like the break."""
    twin: dict[str, str]
    """They behave like the clean engine."""


def compose(engine: Engine, page: Page, seed: bytes) -> Composed | None:
    """Return a break and its twin, both drawn from a seed; None if it has no site in the engine.

    Raises PageError and HunkError for a patch that cannot be read or applied, EnvironmentProblem
    for a file that cannot be rewritten.
    """
    try:
        patched = put(page, engine).sources
    except DoesNotApply:
        return None
    changed = {file: text for file, text in patched.items() if text != engine.sources[file]}
    clean = {file: engine.sources[file] for file in changed}
    return Composed(
        compose_files(clean, changed, "broken", seed),
        compose_files(clean, changed, "clean", seed),
    )


def compose_files(
    clean: Mapping[str, str], broken: Mapping[str, str], live: LiveVersion, seed: bytes
) -> dict[str, str]:
    """Return texts that contain two versions of some files, and behave like one of them.

    Raises EnvironmentProblem for a file that cannot be rewritten.
    """
    composed: dict[str, str] = {}
    for file, text in clean.items():
        try:
            composed[file] = compose_file(text, broken[file], live, _stream(seed, live, file))
        except (SyntaxError, ValueError, RecursionError) as error:
            problem = message(
                "{file}: this file of the engine cannot be rewritten: {error}",
                file=file,
                error=error,
            )
            raise EnvironmentProblem(problem, "split its longest expression") from None
    return composed


def _stream(seed: bytes, *names: str) -> Random:
    digest = hashlib.blake2b("\0".join(names).encode(), key=seed[:64])
    return Random(digest.digest())


def compose_file(clean: str, broken: str, live: LiveVersion, random: Random) -> str:
    """Return a text that contains two versions of a file, and behaves like one of them.

    Raises SyntaxError, ValueError or RecursionError for a text that cannot be read.
    """
    before, ours, theirs, after = _around_differences(clean, broken)
    tree, other = quiet_parse(ours), quiet_parse(theirs)
    names = _unused_names(_identifiers(clean) | _identifiers(theirs), random)
    rewriter = Rewriter(random, names.__next__, _declared(clean) | _declared(theirs))

    def branch(ours: Statements, theirs: Statements, in_function: bool) -> ast.If:
        first = random.random() < 0.5
        if in_function:  # elsewhere, a new name would be seen
            ours, theirs = (rewriter.spell_out(block) for block in (ours, theirs))
        versions = (ours, theirs) if first else (theirs, ours)
        condition = rewriter.condition(first == (live == "clean"))
        return ast.If(condition, *(block or [ast.Pass()] for block in versions))

    merger = Merger(branch, names.__next__)
    tree.body = merger.merge(tree.body, other.body)
    for function in merger.changed:
        rewriter.rewrite(function)
    return before + _spliced(ours, tree, merger.places) + after


def _around_differences(clean: str, broken: str) -> tuple[str, str, str, str]:
    """Return what comes before all differences, both versions of the rest, and what comes after.

    The versions consist of whole statements, so that each can be parsed alone, without most of
    the file.
    """
    ours, theirs = lines_of(clean), lines_of(broken)
    most = min(len(ours), len(theirs))
    first = next((i for i in range(most) if ours[i] != theirs[i]), most)
    same = next((i for i in range(most - first) if ours[-1 - i] != theirs[-1 - i]), most - first)
    start = max(line for line in _boundaries(clean) if line <= first)
    end = min(line for line in _boundaries(clean) if line >= len(ours) - same)
    after = len(ours) - end
    middle = "".join(theirs[start : len(theirs) - after])
    try:
        quiet_parse("".join(ours[start:end]))
        quiet_parse(middle)
    except SyntaxError:  # such as an `else` that belongs to the statement before
        return "", clean, broken, ""
    return "".join(ours[:start]), "".join(ours[start:end]), middle, "".join(ours[end:])


@lru_cache(maxsize=64)
def _boundaries(text: str) -> list[int]:
    """Return how many lines come before each place at which no statement of a file continues."""
    body = quiet_parse(text).body
    ends = [_last(one) for one, after in pairwise(body) if _last(one) < _first(after)]
    return [0, *ends, len(lines_of(text))]


def _spliced(clean: str, tree: ast.Module, places: Sequence[ReplacedLines]) -> str:
    """Return the text of a merged tree, in which unchanged code keeps its lines.

    So what the import runs compiles to the same code: a call that spans two lines is compiled to
    different code than the same call on one line. If lines cannot be replaced, all of them are
    written anew.
    """
    lines = lines_of(clean)
    for place in reversed(_outermost(places)):
        own = _indented(place.statements, -(-place.column // 4))
        lines[place.first - 1 : place.end - 1] = [f"{line}\n" for line in own]
    text = "".join(lines)
    try:
        same = ast.dump(quiet_parse(text)) == ast.dump(tree)
    except SyntaxError:
        same = False
    return text if same else ast.unparse(ast.fix_missing_locations(tree))


def _outermost(places: Sequence[ReplacedLines]) -> list[ReplacedLines]:
    """Return the places that are not inside another, in order."""
    outer: list[ReplacedLines] = []
    for place in sorted(places, key=lambda place: (place.first, -place.end)):
        if not outer or place.first >= outer[-1].end:
            outer.append(place)
    return outer


def _indented(statements: Statements, depth: int) -> list[str]:
    """Return the lines of statements inside `depth` blocks."""
    block = statements
    for _ in range(depth):
        block = [ast.If(ast.Constant(1), block, [])]
    return ast.unparse(ast.fix_missing_locations(ast.Module(block, []))).split("\n")[depth:]


_WORDS = (
    *("block", "count", "extent", "factor", "final", "front", "inner", "item", "left", "level"),
    *("limit", "local", "measure", "outer", "part", "piece", "place", "point", "prior", "rank"),
    *("ratio", "rest", "right", "scale", "share", "shift", "slot", "source", "span", "term"),
    *("total", "track", "unit", "view", "weight", "width"),
)


def _unused_names(used: frozenset[str], random: Random) -> Iterator[str]:
    """Yield names that no file uses, each once."""
    taken = {*used, *dir(builtins)}
    while True:
        name = random.choice(_WORDS) + random.choice(("", *(f"_{word}" for word in _WORDS)))
        if name not in taken:
            taken.add(name)
            yield name


@lru_cache(maxsize=64)
def _declared(text: str) -> frozenset[str]:
    """Return the names that a function binds outside of itself, or inside an expression."""
    names: set[str] = set()
    for node in ast.walk(quiet_parse(text)):
        match node:
            case ast.Global(names=several) | ast.Nonlocal(names=several):
                names.update(several)
            case ast.NamedExpr(target=ast.Name(id=name)):
                names.add(name)
    return frozenset(names)


@lru_cache(maxsize=64)
def _identifiers(text: str) -> frozenset[str]:
    """Return all names of any kind in a file, and all strings."""
    nodes = ast.walk(quiet_parse(text))
    fields = (value for node in nodes for _, value in ast.iter_fields(node))
    parts = (item for value in fields for item in (value if isinstance(value, list) else [value]))
    return frozenset(item for item in parts if isinstance(item, str))
