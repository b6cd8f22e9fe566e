"""Which functions of an engine a change affects, and which of them a run calls.

Until a changed engine executes a changed function, it behaves like the clean one. So if the clean
run calls no function that differs, the other run need not be made.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import CodeType

from harness.engines.loading import CallEdge
from harness.patch.side import quiet_parse

Sources = Mapping[str, str]
"""The text of an engine's files, by their path below the root."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def changed_functions(root: Path, before: Sources, after: Sources) -> set[str] | None:
    """Return the functions in `before` that differ in `after`, as `called_functions` names them.

    A function and those inside it count as one. None if code outside functions differs, since the
    import executes it. New functions do not count: an old one has to be changed to call them.
    """
    changed: set[str] = set()
    for file, text in before.items():
        if text == after.get(file):
            continue
        if file not in after:
            return None
        (functions, rest), (others, other_rest) = _parts(text), _parts(after[file])
        if rest != other_rest:
            return None
        for name, versions in functions.items():
            if [dump for dump, _ in versions] != [dump for dump, _ in others.get(name, [])]:
                short = name.rpartition(".")[2]
                changed |= {f"{root / file}:{line}:{short}" for _, line in versions}
    return changed


@lru_cache(maxsize=64)
def _parts(text: str) -> tuple[dict[str, list[tuple[str, int]]], str]:
    """Return the functions of a file, and everything else as one text.

    Each dotted name has the text and the first line of its functions; several may share a name.
    """
    tree = quiet_parse(text)
    functions: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for name, node in _take_functions(tree, ""):
        line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        functions[name].append((ast.dump(node), line))
    return functions, ast.dump(tree)


def _take_functions(
    scope: ast.Module | ast.ClassDef, prefix: str
) -> Iterator[tuple[str, Function]]:
    """Remove the functions from a module or a class, and yield them; those inside them stay."""
    rest = []
    for node in scope.body:
        if isinstance(node, Function):
            yield f"{prefix}{node.name}", node
            continue
        rest.append(node)
        if isinstance(node, ast.ClassDef):
            yield from _take_functions(node, f"{prefix}{node.name}.")
    scope.body = rest


def called_functions(calls: Sequence[CallEdge] | None) -> list[str] | None:
    """Return the names of the functions that were called; None if that is not known."""
    return None if calls is None else sorted({_name(code) for code, _ in calls})


def _name(code: CodeType) -> str:
    return f"{code.co_filename}:{code.co_firstlineno}:{code.co_name}"
