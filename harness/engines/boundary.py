"""Recording what changed functions receive, return and write: calls at the start and the end.

A patch changes places inside functions. Around the body of each such function, and of those that
it defines, the syntax tree gets ``with call(NAME, locals()):``, and each value that it returns goes
through ``value(v)``. A lambda becomes ``value(E, call(NAME, locals()))``, whose call is opened
before `E` is evaluated and closed after it. Both are functions of `harness.runs.recorder`.

The name of a function is its dotted name, with a slash before a function inside another.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TypeVar

from harness.core.site import Hooks, Site

_Function = ast.FunctionDef | ast.AsyncFunctionDef

INSIDE = "/"
"""Separates the name of a function from the name of a function that it defines."""


@dataclass(frozen=True, eq=False)
class _Outermost:
    """A function that no other contains, and its dotted name."""

    node: _Function | ast.Lambda
    name: str


def record_calls(
    tree: ast.Module,
    sites: Collection[Site],
    hooks: Hooks,
    span: Callable[[ast.expr | ast.stmt], tuple[int, int]],
) -> None:
    """Record the calls of all functions that the sites are in; `span` returns a node's offsets.

    A site in a class, outside its methods, is in all of them; one outside any function and class is
    in all functions of the file.
    """
    functions = list(_outermost(tree, ""))
    for function in dict.fromkeys(f for site in sites for f in _around(functions, site, span)):
        _record(function.node, function.name, hooks)


def _outermost(node: ast.AST, prefix: str) -> Iterator[_Outermost]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function):
            yield _Outermost(child, prefix + child.name)
        elif isinstance(child, ast.Lambda):
            yield _Outermost(child, f"{prefix}<lambda>:{child.lineno}")
        else:
            inner = f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix
            yield from _outermost(child, inner)


def _around(
    functions: Collection[_Outermost],
    site: Site,
    span: Callable[[ast.expr | ast.stmt], tuple[int, int]],
) -> list[_Outermost]:
    named = [f for f in functions if f"{site.scope}.".startswith(f"{f.name}.")]
    if named:
        return named
    spans = ((function, *span(function.node)) for function in functions)
    inside = [f for f, start, end in spans if start <= site.start and site.end <= end]
    if inside:
        return inside
    return [f for f in functions if not site.scope or f.name.startswith(f"{site.scope}.")]


def _record(node: _Function | ast.Lambda, name: str, hooks: Hooks) -> None:
    """Record the calls of a function, and of all functions inside it."""
    children = [*(node.body if isinstance(node, _Function) else [node.body])]
    for inner, inner_name in _directly_inside(children, name):
        _record(inner, inner_name, hooks)
    call = _call(hooks.call, ast.Constant(name), _call(hooks.locals))
    if isinstance(node, ast.Lambda):
        node.body = _placed(node.body, _call(hooks.value, call, node.body))
        return
    if any(isinstance(part, ast.Yield | ast.YieldFrom) for part in _own_nodes(node.body)):
        return  # a generator is suspended while others run
    for part in list(_own_nodes(node.body)):
        if isinstance(part, ast.Return) and part.value is not None:
            part.value = _placed(part.value, _call(hooks.value, ast.Constant(None), part.value))
    first = next((i for i, one in enumerate(node.body) if not _is_docstring(one, i)), None)
    if first is not None:
        body = node.body[first:]
        block = ast.With([ast.withitem(call)], body)
        node.body[first:] = [_placed(body[0], block)]


def _directly_inside(
    nodes: Collection[ast.AST], name: str
) -> Iterator[tuple[_Function | ast.Lambda, str]]:
    """Yield the functions that are inside these nodes, and in no other function there."""
    for part in _own_nodes(nodes):
        if isinstance(part, _Function):
            yield part, f"{name}{INSIDE}{part.name}"
        elif isinstance(part, ast.Lambda):
            yield part, f"{name}{INSIDE}<lambda>"


def _own_nodes(nodes: Collection[ast.AST]) -> Iterator[ast.AST]:
    """Yield these nodes and their parts, but not what is inside of functions and classes."""
    for node in nodes:
        yield node
        if not isinstance(node, _Function | ast.Lambda | ast.ClassDef):
            yield from _own_nodes(list(ast.iter_child_nodes(node)))


def _is_docstring(statement: ast.stmt, position: int) -> bool:
    match statement:
        case ast.Expr(ast.Constant(str())):
            return position == 0
    return False


Node = TypeVar("Node", bound=ast.AST)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _placed(place: ast.AST, new: Node) -> Node:
    """Give the new nodes the position of another."""
    for node in ast.walk(new):
        if not hasattr(node, "lineno"):
            ast.copy_location(node, place)
    return new
