"""How an engine's source spells the functions that it calls, under other names too."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from harness.patch.side import quiet_parse

LIKELY = re.compile(r"_*(un_?broadcast|unbcast|debroadcast|sum_to|reduce_to|reduce_broadcast)\w*")
"""What a function that un-broadcasts is usually called."""


def spellings(sources: Mapping[str, str], names: set[str]) -> tuple[str, ...]:
    """Functions of these names as they are called: `Tensor.sum_to`, `sum_to`, or an alias."""
    found = set()
    for tree in _trees(sources):
        known = names | set(_aliases(tree, names))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                said = ast.unparse(node.func)
                parts = said.split(".")
                if parts[-1] in known and all(part.isidentifier() for part in parts):
                    found.add(said)
    return tuple(sorted(found))


def likely_names(sources: Mapping[str, str]) -> set[str]:
    """Functions that are called as those that un-broadcast usually are."""
    return {
        node.name
        for tree in _trees(sources)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and LIKELY.fullmatch(node.name)
    }


def adds_in_place(sources: Mapping[str, str]) -> bool:
    """Whether the source adds to an attribute that is called a gradient."""
    return any(
        isinstance(node, ast.AugAssign)
        and isinstance(node.op, ast.Add)
        and isinstance(node.target, ast.Attribute)
        and "grad" in node.target.attr
        for tree in _trees(sources)
        for node in ast.walk(tree)
    )


def _aliases(tree: ast.Module, names: set[str]) -> Iterator[str]:
    """`from utils import sum_to as shrink`, `shrink = utils.sum_to`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (each.asname for each in node.names if each.name in names and each.asname)
        elif isinstance(node, ast.Assign):
            value = node.value
            if (isinstance(value, ast.Name) and value.id in names) or (
                isinstance(value, ast.Attribute) and value.attr in names
            ):
                yield from (each.id for each in node.targets if isinstance(each, ast.Name))


def _trees(sources: Mapping[str, str]) -> Iterator[ast.Module]:
    for text in sources.values():
        try:
            yield quiet_parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
