"""The styles of a suite's tests, as its syntax shows."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, get_args

from harness.patch.side import quiet_parse

Style = Literal["properties", "another library", "differences", "parameters", "plain"]
"""Hypothesis draws the inputs; results are compared with another library, or with quotients of
differences; pytest parametrizes tests; none of these."""

STYLES: tuple[Style, ...] = get_args(Style)

_LIBRARIES = frozenset({"autograd", "jax", "tensorflow", "torch"})


def styles_of(files: Mapping[str, bytes]) -> list[Style]:
    """Return the styles of the Python files of a submission; nothing is executed."""
    found = {
        style for name, data in files.items() if name.endswith(".py") for style in _in_file(data)
    }
    return [style for style in STYLES if style in found] or ["plain"]


def _in_file(data: bytes) -> Iterator[Style]:
    try:
        tree = quiet_parse(data.decode())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from _imported(name.name for name in names)
            case ast.ImportFrom(module=str(module)):
                yield from _imported([module])
            case ast.Attribute(attr="parametrize"):
                yield "parameters"
            case ast.BinOp(ast.BinOp(ast.Call(), ast.Sub(), ast.Call()), ast.Div()) | ast.BinOp(
                ast.BinOp(op=ast.Sub()), ast.Div(), ast.BinOp(ast.Constant(2), ast.Mult())
            ):
                yield "differences"


def _imported(modules: Iterable[str]) -> Iterator[Style]:
    for module in modules:
        package = module.partition(".")[0]
        if package == "hypothesis":
            yield "properties"
        elif package in _LIBRARIES:
            yield "another library"
