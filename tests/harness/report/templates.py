"""The templates in the source: the literals that `message`, `say` and errors are called with."""

import ast
from collections.abc import Iterator
from pathlib import Path

import harness
from harness.core.message import Kind

ROOT = Path(harness.__file__).parent

ERRORS = {
    *("UsageError", "PageError", "HunkError", "UnreadableSide", "EnvironmentProblem"),
    *("InternalError", "NotAccepted", "NotUsable", "NewerFile", "DamagedFile", "error"),
    *("mistake", "unknown", "as_message", "parse_python", "read_toml"),
}
"""The functions that take templates as strings: see `harness.core.errors.Sentence`."""


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
        case ast.Attribute(value=ast.Name(id="Kind"), attr=name):
            yield Kind[name].value
        case ast.IfExp(body=body, orelse=orelse):
            yield from _literals(body, constants)
            yield from _literals(orelse, constants)
        case ast.Name(id=name) if isinstance(constants.get(name), ast.Constant):
            yield from _literals(constants[name], {})
        case _:
            yield None


def templates_of_errors(file: Path) -> Iterator[tuple[int, str | None]]:
    """The strings that errors are called with, by line; None for text that is composed.

    A string may be the value of a variable that is assigned in the same function, or in the module.
    """
    tree = ast.parse(file.read_text(encoding="utf-8"))
    shared = dict(_assigned(tree.body))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        nodes = [inner for node in function.body for inner in ast.walk(node)]
        values = shared | dict(_assigned(nodes))
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else None
            if (name or getattr(call.func, "id", "")) in ERRORS:
                for argument in call.args:
                    for template in _texts(argument, values):
                        yield call.lineno, template


def _assigned(nodes: list[ast.stmt] | list[ast.AST]) -> Iterator[tuple[str, list[ast.expr]]]:
    """The values of each variable."""
    values: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            pairs = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = list(zip(target.elts, value.elts, strict=True))
            for variable, item in pairs:
                if isinstance(variable, ast.Name):
                    values.setdefault(variable.id, []).append(item)
    yield from values.items()


def _texts(value: ast.expr, variables: dict[str, list[ast.expr]]) -> Iterator[str | None]:
    match value:
        case ast.Constant(value=str(text)) if text:
            yield text
        case ast.JoinedStr():
            yield None
        case ast.IfExp(body=body, orelse=orelse):
            yield from _texts(body, variables)
            yield from _texts(orelse, variables)
        case ast.Name(id=name):
            for item in variables.get(name, []):
                yield from _texts(item, {})
