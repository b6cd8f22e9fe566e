"""Positions: a rewritten file is compiled so that its functions are where the clean file has them.

`inspect.getsource` and tracebacks look the first line of a function up in the file. With the lines
of the rewritten text they would show something else, or fail, in every function below a change.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType

from harness.patch.side import quiet_parse

_DefinitionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def compile_in_place(text: str, clean: str, path: str) -> CodeType:
    """Return the code of a text whose definitions begin where those of the clean text do.

    Raises SyntaxError, ValueError or RecursionError for a text that cannot be compiled.
    """
    tree = quiet_parse(text)
    _move(tree, _parsed(clean))
    return compile(tree, path, "exec", dont_inherit=True)


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
            ast.increment_lineno(node, shift)
        elif isinstance(node, _DefinitionNode):
            shift = _last(place) - _last(node)
    for node in _definitions(tree):
        if place := places.get(node.name):
            ast.increment_lineno(node, _first(place) - _first(node))
            _move(node, place)


def _definitions(tree: ast.AST) -> Iterator[_DefinitionNode]:
    """Yield the definitions in a tree that are not inside another one."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _DefinitionNode):
            yield node
        else:
            yield from _definitions(node)


def _first(definition: _DefinitionNode) -> int:
    return min(node.lineno for node in (definition, *definition.decorator_list))


def _last(definition: _DefinitionNode) -> int:
    return definition.end_lineno or definition.lineno
