"""Expressions of an engine's settings, compiled to functions of the names that they may use.

Since these names are parameters, comprehensions and lambdas inside an expression see them too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any

PARAMETERS: dict[str, tuple[str, ...]] = {
    "leaf": ("data",),
    "value": ("t",),
    "gradient": ("t", "before"),
    "backward": ("t", "cotangent", "leaves"),
    "backward_again": ("t", "cotangent", "leaves"),
    "trace": (),
    "pull": ("function", "data"),
}
"""The names that each expression of a dialect may use, besides those of the engine."""


def function_of(
    expression: str, parameters: Iterable[str], names: Mapping[str, Any], filename: str
) -> Callable[..., Any]:
    """Return the expression as a function of these keywords, with `names` as its globals.

    A keyword that is not passed is None. Raises SyntaxError if it is not an expression.
    """
    body = ast.parse(expression, filename, "eval").body
    keywords = [ast.arg(name) for name in parameters]
    arguments = ast.arguments(
        posonlyargs=[],
        args=[],
        kwonlyargs=keywords,
        kw_defaults=[ast.Constant(None) for _ in keywords],
        defaults=[],
    )
    tree = ast.Expression(ast.Lambda(arguments, body))
    code = compile(ast.fix_missing_locations(tree), filename, "eval")
    function: Callable[..., Any] = eval(code, dict(names))  # noqa: S307  settings are code
    return function


def names_in(expression: str) -> set[str]:
    """Return the names that an expression looks up; none if it cannot be parsed."""
    try:
        tree = ast.parse(expression, mode="eval")
    except (SyntaxError, ValueError):
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def substituted(expression: str, name: str, replacement: str) -> str:
    """Return the expression with a name replaced; keywords and attributes of that name stay."""
    tree = ast.parse(expression, mode="eval")
    new = ast.parse(replacement, mode="eval").body
    return ast.unparse(_Substitution(name, new).visit(tree))


class _Substitution(ast.NodeTransformer):
    def __init__(self, name: str, new: ast.expr) -> None:
        self.name, self.new = name, new

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace the name."""
        return self.new if node.id == self.name else node
