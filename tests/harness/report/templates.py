"""The templates in the source: the literals that `message` and `say` are called with."""

import ast
from collections.abc import Iterator
from pathlib import Path

import harness

ROOT = Path(harness.__file__).parent


def templates_in(file: Path, *functions: str) -> Iterator[tuple[int, str | None]]:
    """The template of each call of one of the functions, by line; None if it is not a literal."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and call.args):
            continue
        function = call.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in functions:
            for literal in _literals(call.args[0], constants):
                yield call.lineno, literal


def _literals(value: ast.expr, constants: dict[str, ast.expr]) -> Iterator[str | None]:
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from _literals(body, constants)
            yield from _literals(orelse, constants)
        case ast.Name(id=name) if isinstance(constants.get(name), ast.Constant):
            yield from _literals(constants[name], {})
        case _:
            yield None
