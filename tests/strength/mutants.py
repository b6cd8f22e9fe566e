"""Single-site mutants of a source file: one edit each, and every other byte stays."""

from __future__ import annotations

import ast
import difflib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from pathlib import Path

ROOMS = ("answer_key", "diagnostics", "patch")
"""The folders below `harness` that are mutated."""

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.MatMult: ("@", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
"""The text of an operator, and the text that replaces it."""


@dataclass(frozen=True, order=True)
class Mutant:
    """A file with the bytes `start:end` replaced."""

    path: str
    """Relative to the root of the repository."""
    start: int
    end: int
    replacement: str
    operator: str
    """The name of the kind of change."""

    @property
    def room(self) -> str:
        return Path(self.path).parts[1]

    def apply(self, source: bytes) -> bytes:
        """Return the mutated source."""
        return source[: self.start] + self.replacement.encode() + source[self.end :]

    def diff(self, source: bytes) -> str:
        """Return the mutant as a unified diff."""
        before, after = (
            text.decode().splitlines(keepends=True) for text in (source, self.apply(source))
        )
        return "".join(difflib.unified_diff(before, after, self.path, self.path, n=2))


def draw(root: Path, count: int, seed: int) -> list[Mutant]:
    """Return `count` valid mutants of the rooms' files, drawn uniformly without replacement."""
    files = sorted(file for room in ROOMS for file in (root / "harness" / room).rglob("*.py"))
    sources = {file.relative_to(root).as_posix(): file.read_bytes() for file in files}
    population = [mutant for path, source in sources.items() for mutant in mutants(path, source)]
    random.Random(seed).shuffle(population)
    valid = (mutant for mutant in population if is_valid(mutant, sources[mutant.path]))
    return list(islice(valid, count))


@cache
def mutants(path: str, source: bytes) -> tuple[Mutant, ...]:
    """Return all single-site mutants of a file, in order; a few may not be valid."""
    text = Text(source)
    found = {
        Mutant(path, start, end, replacement, operator)
        for node in executed(ast.parse(source))
        for operator, start, end, replacement in edits(node, text)
    }
    return tuple(sorted(found))


def is_valid(mutant: Mutant, source: bytes) -> bool:
    """Whether the mutated source is Python, and another program than the source."""
    try:
        return ast.dump(ast.parse(mutant.apply(source))) != _dump(source)
    except SyntaxError:
        return False


@cache
def _dump(source: bytes) -> str:
    return ast.dump(ast.parse(source))


Edit = tuple[str, int, int, str]
"""The kind of change, the first byte, the byte after the last, and the replacement."""


class Text:
    """The source with the byte positions of its nodes."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._lines[node.lineno - 1] + node.col_offset,
            self._lines[node.end_lineno - 1] + node.end_col_offset,
        )

    def of(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.source[start:end].decode()

    def between(self, left: ast.expr, right: ast.expr, token: str) -> tuple[int, int] | None:
        """Return the span of the token between two nodes."""
        begin, end = self.span(left)[1], self.span(right)[0]
        start = self.source.find(token.encode(), begin, end)
        return None if start < 0 else (start, start + len(token))


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that are executed: no annotations, docstrings or parts of f-strings.

    Python 3.11 does not give the positions of what is in an f-string.
    """
    yield node
    skipped = {"annotation", "returns"}
    for name, value in ast.iter_fields(node):
        if name in skipped:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_text(child):
                yield from executed(child)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def edits(node: ast.AST, text: Text) -> Iterator[Edit]:
    """Every change of this node itself, not of its parts."""
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        for operator, (left, right) in zip(node.ops, pairwise(operands), strict=True):
            yield from _exchange(text, left, right, COMPARISONS[type(operator)], "comparison")
    elif isinstance(node, ast.BinOp):
        yield from _exchange(text, node.left, node.right, ARITHMETIC[type(node.op)], "arithmetic")
    elif isinstance(node, ast.BoolOp):
        tokens = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in pairwise(node.values):
            yield from _exchange(text, left, right, tokens, "boolean")
    elif isinstance(node, ast.Constant):
        yield from _constants(node, text)
    elif isinstance(node, ast.UnaryOp):
        yield "unary", *text.span(node), f"({text.of(node.operand)})"
    elif isinstance(node, ast.Call):
        yield from _swapped(node, text)
    elif isinstance(node, ast.Slice):
        for bound in (node.lower, node.upper):
            if bound is not None:
                yield "slice", *text.span(bound), ""
    elif isinstance(node, ast.stmt):
        yield from _statements(node, text)
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield from _negated(node.test, text)
    elif isinstance(node, ast.comprehension):
        for condition in node.ifs:
            yield from _negated(condition, text)


def _exchange(
    text: Text, left: ast.expr, right: ast.expr, tokens: tuple[str, str], name: str
) -> Iterator[Edit]:
    span = text.between(left, right, tokens[0])
    if span:
        yield name, *span, tokens[1]


def _constants(node: ast.Constant, text: Text) -> Iterator[Edit]:
    value = node.value
    if type(value) is bool:
        yield "constant", *text.span(node), str(not value)
    elif type(value) is int:
        yield "constant", *text.span(node), str(value + 1)
    elif type(value) is float:
        yield "constant", *text.span(node), repr(value * 2 or 1.0)


def _swapped(node: ast.Call, text: Text) -> Iterator[Edit]:
    """The call with its two arguments exchanged; `isinstance` would only raise."""
    if len(node.args) != 2 or any(isinstance(item, ast.Starred) for item in node.args):
        return
    if isinstance(node.func, ast.Name) and node.func.id == "isinstance":
        return
    first, second = node.args
    start, end = text.span(first)[0], text.span(second)[1]
    middle = text.source[text.span(first)[1] : text.span(second)[0]].decode()
    yield "swap", start, end, text.of(second) + middle + text.of(first)


def _negated(condition: ast.expr, text: Text) -> Iterator[Edit]:
    if not isinstance(condition, ast.UnaryOp):  # its operator is dropped instead
        yield "negation", *text.span(condition), f"(not ({text.of(condition)}))"


def _statements(node: ast.stmt, text: Text) -> Iterator[Edit]:
    """Statements that are removed, and returned values that are lost."""
    if isinstance(node, ast.Expr | ast.AugAssign):
        yield "statement", *text.span(node), "pass"
    elif isinstance(node, ast.Return) and node.value is not None:
        yield "return", *text.span(node.value), "None"
