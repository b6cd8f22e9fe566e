"""Twins: a break composed so that a suite cannot recognise it, and the same without the break.

    page and engine -> clean and broken text -> merged (one text with both) -> rewritten

The twin is the clean engine, changed in code at the same places and not in behaviour. Broken text
and twin are drawn from two streams of one secret seed. Both contain the clean and the broken code,
so neither their names and constants nor their length say which of the two runs.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from harness.core.errors import DoesNotApply, EnvironmentProblem
from harness.core.message import message
from harness.engines.engine import Engine
from harness.experiment.patching import put
from harness.grade.merging import LiveVersion, Merger, Replacement, Statements
from harness.grade.rewriting import Rewriter
from harness.pages.page import Page
from harness.patch.apply import lines_of
from harness.patch.side import quiet_parse


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
    """Return a text that contains two versions of a file, and behaves like one of them."""
    tree, other = quiet_parse(clean), quiet_parse(broken)
    used = _identifiers(tree) | _identifiers(other)
    names = _unused_names(used, random)
    rebound = frozenset(_declared(tree) | _declared(other))
    rewriter = Rewriter(random, names.__next__, "id" not in used, rebound)

    def branch(ours: Statements, theirs: Statements, parameters: Sequence[str] | None) -> ast.If:
        first = random.random() < 0.5
        if parameters is not None:  # elsewhere, a new name would be seen
            ours, theirs = (rewriter.spell_out(block) for block in (ours, theirs))
        versions = (ours, theirs) if first else (theirs, ours)
        condition = rewriter.condition(first == (live == "clean"), parameters or ())
        return ast.If(condition, *(block or [ast.Pass()] for block in versions))

    merger = Merger(branch, names.__next__)
    tree.body = merger.merge(tree.body, other.body)
    for function in merger.changed:
        rewriter.rewrite(function)
    return _spliced(clean, tree, merger.places)


def _spliced(clean: str, tree: ast.Module, places: Sequence[Replacement]) -> str:
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


def _outermost(places: Sequence[Replacement]) -> list[Replacement]:
    """Return the places that are not inside another, in order."""
    outer: list[Replacement] = []
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


def _unused_names(used: set[str], random: Random) -> Iterator[str]:
    """Yield names that no file uses, each once."""
    taken = used | set(dir(builtins))
    while True:
        name = random.choice(_WORDS) + random.choice(("", *(f"_{word}" for word in _WORDS)))
        if name not in taken:
            taken.add(name)
            yield name


def _declared(tree: ast.Module) -> set[str]:
    """Return the names that a function binds outside of itself, or inside an expression."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Global(names=several) | ast.Nonlocal(names=several):
                names.update(several)
            case ast.NamedExpr(target=ast.Name(id=name)):
                names.add(name)
    return names


def _identifiers(tree: ast.Module) -> set[str]:
    """Return all names of any kind in a file, and all strings."""
    fields = (value for node in ast.walk(tree) for _, value in ast.iter_fields(node))
    parts = (item for value in fields for item in (value if isinstance(value, list) else [value]))
    return {item for item in parts if isinstance(item, str)}
