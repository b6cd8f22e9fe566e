"""The mutants that are ours: hunks in our notation, each with one change of one expression."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def mutations(text: str) -> Iterator[str]:
    """A hunk for each change of an operator or a constant, in the scope of its definition."""
    known: set[str] = set()
    for scope, whole in _expressions(ast.parse(text), ""):
        nodes = list(ast.walk(whole))
        for place in range(len(nodes)):
            for mutated in _mutated(whole, place):
                hunk = f"@@ {scope} @@\n-{ast.unparse(whole)}\n+{ast.unparse(mutated)}\n"
                if hunk not in known:
                    known.add(hunk)
                    yield hunk


def _expressions(node: ast.AST, scope: str) -> Iterator[tuple[str, ast.expr]]:
    """The outermost expressions of every statement, with the dotted name of what they are in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield from _expressions(child, f"{scope}.{child.name}".strip("."))
        elif isinstance(child, ast.expr):
            is_text = isinstance(child, ast.Constant) and isinstance(child.value, str)
            if not is_text and isinstance(getattr(child, "ctx", ast.Load()), ast.Load):
                yield scope, child
        elif isinstance(child, ast.stmt | ast.arguments | ast.keyword):
            yield from _expressions(child, scope)


def _mutated(whole: ast.expr, place: int) -> Iterator[ast.expr]:
    """The expression with the node at that place of its walk changed, in each way that there is."""
    node = list(ast.walk(whole))[place]
    for change in _changes(node):
        fresh = copy.deepcopy(whole)
        target = list(ast.walk(fresh))[place]
        if target is not fresh:
            yield _replaced(fresh, target, change)
        elif isinstance(change, ast.expr):
            yield change
    if isinstance(node, ast.Call):
        for index in range(len(node.args)):
            fresh = copy.deepcopy(whole)
            _call(fresh, place).args[index] = ast.Constant(None)
            yield fresh
        for index in range(len(node.keywords)):
            fresh = copy.deepcopy(whole)
            del _call(fresh, place).keywords[index]
            yield fresh


def _call(whole: ast.expr, place: int) -> ast.Call:
    found = list(ast.walk(whole))[place]
    assert isinstance(found, ast.Call)
    return found


def _changes(node: ast.AST) -> list[ast.AST]:
    """What may stand in the place of a node."""
    if type(node) in OPERATORS:
        return [OPERATORS[type(node)]()]
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return [ast.Constant(node.value + 1), ast.Constant(node.value - 1)]
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        return [ast.Constant(not node.value)]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.Lambda):
        return [ast.Lambda(node.args, ast.Constant(None))]
    return []


def _replaced(whole: ast.expr, target: ast.AST, change: ast.AST) -> ast.expr:
    for parent in ast.walk(whole):
        for name, part in ast.iter_fields(parent):
            if part is target:
                setattr(parent, name, change)
            elif isinstance(part, list) and target in part:
                part[part.index(target)] = change
    return whole
