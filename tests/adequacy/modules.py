"""The layers of minigrad that have parameters, and mutants that change only their gradients.

A layer is composed of ops, whose rules `mutants` changes. What can go wrong in the layer itself is
that a parameter, the input or an intermediate result takes no part in the backward pass, or passes
on a wrong gradient, while every value is right. Each use of one of them is replaced by an
expression of the same value: detached, with twice the gradient, or with the opposite one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.adequacy.mutants import Rule
from tests.strength.mutants import Mutant, Text

METHODS = ("forward", "_batch_statistics", "_split")
"""The methods that compute a result."""

CHANGES = {
    "detached": "({0}).detach()",
    "doubled": "(2 * ({0}) - ({0}).detach())",
    "negated": "(2 * ({0}).detach() - ({0}))",
}

OTHERS = {
    *("self", "symbols", "count", "padding", "state", "nothing", "options", "cache", "unbiased"),
    *("batch", "length", "features", "project", "wanted", "query", "key", "value", "output"),
}
"""The names in these methods that are not those of tensors."""

FACTS = {"shape", "ndim", "data", "dtype", "requires_grad", "hidden", "eps", "momentum"}
"""Attributes that are not differentiated."""


def find_layers(root: Path) -> list[Rule]:
    """Return the methods of all layers with parameters, or with layers that have some."""
    return [
        Rule(file.relative_to(root).as_posix(), f"{layer.name}.{method.name}", (), (method,))
        for file in sorted((root / "minigrad" / "nn").glob("*.py"))
        for layer in ast.parse(file.read_bytes()).body
        if isinstance(layer, ast.ClassDef) and _has_parameters(layer)
        for method in layer.body
        if isinstance(method, ast.FunctionDef) and method.name in METHODS
    ]


def _has_parameters(layer: ast.ClassDef) -> bool:
    return bool(_parameters(layer)) or "Linear(" in ast.unparse(layer)


def _parameters(layer: ast.ClassDef) -> set[str]:
    """The attributes that are set to a tensor."""
    return {
        node.targets[0].attr
        for node in ast.walk(layer)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Attribute)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) in ("Tensor", "parameter")
    }


def layer_mutants(root: Path, rule: Rule) -> list[Mutant]:
    """Return all mutants of a method, in the order of the text."""
    source = (root / rule.path).read_bytes()
    text, name = Text(source), rule.function.partition(".")[0]
    layer = next(
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    return sorted(
        Mutant(rule.path, start, end, change.format(source[start:end].decode()), kind)
        for method in rule.statements
        for node in _uses(method, _parameters(layer))
        for start, end in [text.span(node)]
        for kind, change in CHANGES.items()
    )


def _uses(node: ast.AST, parameters: set[str]) -> Iterator[ast.expr]:
    """Yield the expressions that are tensors: names, and parameters of the layer."""
    match node:
        case ast.If():
            children: list[ast.AST] = [*node.body, *node.orelse]
        case ast.Raise() | ast.arguments():
            children = []
        case ast.Call(func=ast.Name(id="len" | "isinstance" | "_check_features")):
            children = []
        case ast.Attribute(attr=name) if name in FACTS:
            children = []
        case ast.Subscript():
            children = [node.value]
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            children = []
            if name in parameters and isinstance(node.ctx, ast.Load):
                yield node
        case ast.Name(id=name, ctx=ast.Load()):
            children = []
            if name not in OTHERS and name.islower() and len(name) < 15 and name not in _GLOBAL:
                yield node
        case ast.FunctionDef():
            children = [*node.body]
        case _:
            children = [*ast.iter_child_nodes(node)]
    for child in children:
        yield from _uses(child, parameters)


_GLOBAL = {"np", "math", "apply", "layer_ops", "where", "cat", "causal_mask", "zip", "int", "float"}
