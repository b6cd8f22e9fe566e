"""How much of a submission is a copy of the engine, and which tests use it.

Comparing an engine with a correct one is a test of what it does. But pasting the engine itself and
comparing with it takes no work, and such a suite kills most breaks. The share is reported to the
instructor, who decides.

A function is a copy if most of its syntax occurs in the engine, in the same order. Names,
docstrings and annotations do not count, so a copy with changed names is found. A copy that is
compressed or rewritten is not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from harness.core.message import visible
from harness.grade.suite import CopiedCode
from harness.patch.side import quiet_parse

LENGTH = 24
"""The number of syntax nodes that are compared at a time; NumPy code often shares a dozen."""

MOST = 0.6
"""A function is a copy if a larger share of its syntax nodes occurs in the engine."""

FEWEST = 24
"""A function with fewer syntax nodes is not judged: most such functions look alike."""

ALLOWED = 0.05
"""A suite with a larger share is refused if copies are not allowed."""

_LONG_TEXT = 200
"""A string in a program that is longer than this may itself be a program."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_copies(files: Mapping[str, bytes], sources: Mapping[str, str]) -> CopiedCode:
    """Return what a submission's files have copied from the engine's; nothing is executed."""
    known = {
        parts
        for text in sources.values()
        for tree in _parsed(text)
        for function in _functions(tree)
        for parts in _windows(_syntax(function))
    }
    copies: list[str] = []
    names: set[str] = set()
    users: dict[str, set[str]] = {}
    total = copied = 0
    for file, data in files.items():
        for tree in _programs(data):
            for function in _functions(tree):
                parts = _syntax(function)
                total += len(parts)
                users.setdefault(function.name, set()).update(_names(function))
                if len(parts) < FEWEST:
                    continue
                windows = list(_windows(parts))
                if sum(window in known for window in windows) > MOST * len(windows):
                    copied += len(parts)
                    copies.append(f"{visible(file)}: {visible(function.name)}")
                    names.add(function.name)
            _add_classes(tree, users)
    tests = [name for name in users if name.startswith("test") and _reaches(name, names, users)]
    return CopiedCode(round(copied / total, 4) if total else 0.0, copies, sorted(tests))


def _programs(data: bytes) -> Iterator[ast.Module]:
    """Yield the program in a file, and those in its long strings."""
    for tree in _parsed(data.decode("utf-8", "replace")):
        yield tree
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from _parsed(node.value) if len(node.value) > _LONG_TEXT else ()


def _parsed(text: str) -> Iterator[ast.Module]:
    try:
        yield quiet_parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return


def _functions(tree: ast.AST) -> Iterator[_Function]:
    """Yield the functions and methods in a program, except those inside another function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _Function):
            yield node
        else:
            yield from _functions(node)


def _syntax(function: _Function) -> list[str]:
    """Return the kinds of the syntax nodes in a function's body, in order."""
    body = function.body[ast.get_docstring(function) is not None :]
    return [name for statement in body for name in _kinds(statement)]


def _kinds(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.expr_context | ast.arguments):
        return
    yield type(node).__name__
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST):
                yield from _kinds(item)


def _windows(parts: list[str]) -> Iterator[tuple[str, ...]]:
    for start in range(max(1, len(parts) - LENGTH + 1)):
        yield tuple(parts[start : start + LENGTH])


# ----- Which tests use a copy -----


def _names(node: ast.AST) -> set[str]:
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    names |= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    return names | {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}


def _add_classes(tree: ast.Module, users: dict[str, set[str]]) -> None:
    """Record that classes and module variables use what their definitions name."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name):
                methods = {part.name for part in node.body if isinstance(part, _Function)}
                users.setdefault(name, set()).update(methods)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                users.setdefault(name, set()).update(_names(value))


def _reaches(name: str, wanted: Iterable[str], users: Mapping[str, set[str]]) -> bool:
    """Whether a function uses one of these by name, directly or through others."""
    aims, pending, met = set(wanted), [name], {name}
    while pending:
        for other in users.get(pending.pop(), set()) - met:
            if other in aims:
                return True
            met.add(other)
            pending.append(other)
    return False
