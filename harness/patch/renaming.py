"""A hunk's two sides in an engine that calls things differently.

A name with one spelling is replaced in the template's text. One with several becomes a hole that
stands for nothing but its spellings; the + side says the one that was found.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache

from harness.patch.side import Side, make_side, read_side
from harness.patch.spellings import Names, last_parts, spellings
from harness.patch.tree import Node


def renamed(before: Side, after: Side, names: Names) -> tuple[Side, Side]:
    """Both sides with other identifiers, on new trees.

    A dotted name stands only where a bare name stood.
    """
    several = {ours: each for ours, theirs in names.items() if len(each := spellings(theirs)) > 1}
    first = {ours: spellings(theirs)[0] for ours, theirs in names.items()}
    every = {_hole(ours, bare) for ours in several for bare in (True, False)}
    before = _marked(_replaced(before, first, every), several, every)
    found = every.intersection(before.holes)
    return before, _marked(_replaced(after, first, found), several, found)


def read_pattern(text: str) -> Node:
    """One expression of the notation as a pattern."""
    value = read_statement(text).parts["value"]
    assert isinstance(value, Node)
    return value


def read_statement(text: str) -> Node:
    """One statement of the notation as a pattern."""
    return read_side([(0, line) for line in text.split("\n")], 0, "-").body[0]


def _hole(ours: str, bare: bool) -> str:
    """The hole that a name of several spellings becomes: one for code, one for identifiers."""
    return f"={ours}" if bare else f"=.{ours}"


def _hole_of(node: Node) -> str:
    return _hole(str(node.value[0]), node.is_expression)


def _replaced(side: Side, names: Mapping[str, str], kept: Collection[str]) -> Side:
    """Text in which each name stands as theirs, but for the holes that are kept."""
    data = side.source.data
    for node in sorted(side.source.root.walk(), key=lambda node: -node.start):
        theirs = names.get(str(node.value[0])) if node.kind == "Name" else None
        if theirs and _hole_of(node) not in kept:
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
    return tuple(read_pattern(each) for each in (theirs if bare else last_parts(theirs)))
