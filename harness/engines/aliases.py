"""Names and aliases of functions in an engine's source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from harness.patch.side import quiet_parse

LIKELY = re.compile(r"_*(un_?broadcast|unbcast|debroadcast|sum_to|reduce_to|reduce_broadcast)\w*")
"""Usual names of a function that un-broadcasts."""


def spellings(sources: Mapping[str, str], names: set[str]) -> tuple[str, ...]:
    """Return the names by which these functions are called: `Tensor.sum_to`, `sum_to`, an alias."""
    callees = set()
    for tree in _trees(sources):
        aliases = names | set(_aliases(tree, names))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                callee = ast.unparse(node.func)
                parts = callee.split(".")
                if parts[-1] in aliases and all(part.isidentifier() for part in parts):
                    callees.add(callee)
    return tuple(sorted(callees))


def likely_names(sources: Mapping[str, str]) -> set[str]:
    """The functions whose name suggests that they un-broadcast."""
    return {
        node.name
        for node in _nodes(sources)
        if isinstance(node, ast.FunctionDef) and LIKELY.fullmatch(node.name)
    }


def adds_in_place(sources: Mapping[str, str]) -> bool:
    """Whether the source applies `+=` to an attribute with `grad` in its name."""
    return any(
        isinstance(node, ast.AugAssign)
        and isinstance(node.op, ast.Add)
        and isinstance(node.target, ast.Attribute)
        and "grad" in node.target.attr
        for node in _nodes(sources)
    )


def _aliases(tree: ast.Module, names: set[str]) -> Iterator[str]:
    """The other names bound by `from utils import sum_to as shrink`, `shrink = utils.sum_to`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (a.asname for a in node.names if a.name in names and a.asname)
        elif isinstance(node, ast.Assign):
            value = node.value
            if (isinstance(value, ast.Name) and value.id in names) or (
                isinstance(value, ast.Attribute) and value.attr in names
            ):
                yield from (t.id for t in node.targets if isinstance(t, ast.Name))


def _nodes(sources: Mapping[str, str]) -> Iterator[ast.AST]:
    return (node for tree in _trees(sources) for node in ast.walk(tree))


def _trees(sources: Mapping[str, str]) -> Iterator[ast.Module]:
    for text in sources.values():
        try:
            yield quiet_parse(text)
        except SyntaxError:
            continue
