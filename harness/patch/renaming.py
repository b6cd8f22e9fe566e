"""A hunk's two sides with the names of another engine.

A name with one spelling is replaced in the template's text. A name with several becomes a hole that
matches only its spellings, and the + side uses the one that matched.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache

from harness.patch.side import Side, make_side, read_side
from harness.patch.spellings import Names, last_parts, spellings
from harness.patch.tree import Node


def renamed(before: Side, after: Side, names: Names) -> tuple[Side, Side]:
    """Both sides with an engine's names, as new trees; a dotted name replaces only a bare name."""
    spelled = {ours: spellings(theirs) for ours, theirs in names.items()}
    several = {ours: options for ours, options in spelled.items() if len(options) > 1}
    first = {ours: options[0] for ours, options in spelled.items()}
    possible = {_hole(ours, bare) for ours in several for bare in (True, False)}
    before = _marked(_replaced(before, first, possible), several, possible)
    used = possible.intersection(before.holes)
    return before, _marked(_replaced(after, first, used), several, used)


def read_pattern(text: str) -> Node:
    """One expression of the notation as a pattern."""
    value = read_statement(text).parts["value"]
    assert isinstance(value, Node)
    return value


def read_statement(text: str) -> Node:
    """One statement of the notation as a pattern."""
    return read_side([(0, line) for line in text.split("\n")], 0, "-").body[0]


def _hole(ours: str, bare: bool) -> str:
    """The hole for a name of several spellings: one in expressions, one for bare identifiers."""
    return f"={ours}" if bare else f"=.{ours}"


def _hole_of(node: Node) -> str:
    return _hole(str(node.value[0]), node.is_expression)


def _replaced(side: Side, names: Mapping[str, str], holes: Collection[str]) -> Side:
    """The side with each name replaced by the engine's, except the names that become holes."""
    data = side.source.data
    for node in sorted(side.source.root.walk(), key=lambda node: -node.start):
        theirs = names.get(str(node.value[0])) if node.kind == "Name" else None
        if theirs and _hole_of(node) not in holes:
            new = theirs if node.is_expression else theirs.rpartition(".")[2]
            data = data[: node.start] + new.encode() + data[node.end :]
    return make_side(data.decode(), side.rows)


def _marked(side: Side, several: Mapping[str, tuple[str, ...]], holes: Collection[str]) -> Side:
    marked = dict(side.holes)
    for node in side.source.root.walk():
        ours = str(node.value[0]) if node.kind == "Name" else ""
        if ours in several and _hole_of(node) in holes:
            node.hole = _hole_of(node)
            node.spellings = _patterns(several[ours], node.is_expression)
            marked.setdefault(node.hole, node)
    return replace(side, holes=marked)


@cache
def _patterns(theirs: tuple[str, ...], bare: bool) -> tuple[Node, ...]:
    return tuple(map(read_pattern, theirs if bare else last_parts(theirs)))
