"""Converting LibCST's tree to ours: spans, literals by value, and one form for equivalent code."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, CodeSpan, MetadataWrapper

from harness.core.site import BOM
from harness.patch.tree import Node, Source, link

_LAYOUT = re.compile(
    r"whitespace|[lr]par|[lr](bracket|brace)$|comma|colon|semicolon|dot|equal|separator"
    r"|lines|header|footer|indent|newline|encoding|_ind$"
)
_OPERATORS = (
    cst.BaseBinaryOp,
    cst.BaseBooleanOp,
    cst.BaseUnaryOp,
    cst.BaseCompOp,
    cst.BaseAugOp,
    cst.Asynchronous,
)
_MOST_BRACKETS = 200
"""Brackets within brackets that Python reads; its own parser refuses more."""

Parts = dict[str, Node | tuple[Node, ...] | None]


@lru_cache(maxsize=256)
def read_source(text: str) -> Source:
    """`parse_source` with a cache; its trees are shared and must not be modified."""
    return parse_source(text)


def parse_source(text: str) -> Source:
    """Parse a module.

    Raises `libcst.ParserSyntaxError`, or `RecursionError` for code that is nested too deeply.
    """
    if _depth(text) > _MOST_BRACKETS:
        raise RecursionError  # LibCST's parser would overflow the stack and end the process
    shift = len(BOM.encode()) if text.startswith(BOM) else 0
    module = cst.parse_module(text.removeprefix(BOM))
    wrapper = _PositionWrapper(module, unsafe_skip_copy=True)
    reader = _TreeReader(wrapper.resolve(ByteSpanPositionProvider), shift)
    data = text.encode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about escapes such as "\d" in the literals of an engine
        root = Node("Module", (), {"body": reader.block(module.body)}, 0, len(data))
    link(root)
    return Source(text, root, module.default_indent, module.default_newline, data)


class _PositionWrapper(MetadataWrapper):
    """Resolves positions; LibCST would also walk the tree for an empty batch of providers."""

    def visit_batched(self, visitors: Iterable[Any], *arguments: Any) -> cst.CSTNode:
        """Visit the module, unless there are no visitors."""
        chosen = list(visitors)
        return super().visit_batched(chosen, *arguments) if chosen else self.module


def _depth(text: str) -> int:
    """How deeply brackets are nested, with those in strings and comments counted too."""
    steps = (1 if bracket in "([{" else -1 for bracket in re.findall(r"[][(){}]", text))
    return max(accumulate(steps), default=0)


# LibCST's classes are abstract base classes, so `isinstance` for each node would be slow.


@cache
def _significant(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind) if not _LAYOUT.search(f.name))


@cache
def _is_atom(kind: type) -> bool:
    return issubclass(kind, (str, *_OPERATORS))


@cache
def _is_expression(kind: type) -> bool:
    return issubclass(kind, cst.BaseExpression)


class _TreeReader:
    """Converts the tree of one module."""

    def __init__(self, spans: Mapping[cst.CSTNode, CodeSpan], shift: int) -> None:
        self._spans, self._shift = spans, shift

    def node(self, tree: cst.CSTNode) -> Node:
        """Convert any LibCST node."""
        convert = _CONVERSIONS.get(type(tree))
        return self._generic(tree) if convert is None else convert(self, tree)

    def block(self, statements: Iterable[cst.CSTNode], suite: bool = False) -> tuple[Node, ...]:
        """The statements of a block as one flat list, also those that share a line."""
        flat: list[Node] = []
        for statement in statements:
            if isinstance(statement, cst.SimpleStatementLine):
                flat += self._line(statement.body, suite=False)
            elif isinstance(statement, cst.BaseSmallStatement):
                return tuple(self._line(statements, suite))
            else:
                flat.append(self._compound(statement))
        return tuple(flat)

    # ----- statements -----

    def _line(self, statements: Iterable[cst.CSTNode], suite: bool) -> list[Node]:
        mates = [self.node(statement) for statement in statements]
        for node in mates:
            node.mates, node.suite = tuple(mates), suite
        return mates

    def _compound(self, tree: cst.CSTNode) -> Node:
        clauses = tuple(self._clauses(tree))
        start, end = clauses[0].start, clauses[-1].end
        return Node("Compound", (), {"clauses": clauses}, start, end)

    def _clauses(self, tree: cst.CSTNode) -> list[Node]:
        clauses = [self._clause(tree, type(tree).__name__)]
        if isinstance(tree, cst.Try | cst.TryStar):
            clauses += [self._clause(handler, type(handler).__name__) for handler in tree.handlers]
        other = getattr(tree, "orelse", None)
        while isinstance(other, cst.If):
            clauses.append(self._clause(other, "Elif"))
            other = other.orelse
        for last in (other, getattr(tree, "finalbody", None)):
            if last is not None:
                clauses.append(self._clause(last, type(last).__name__))
        return clauses

    def _clause(self, tree: cst.CSTNode, kind: str) -> Node:
        dropped = ("body", "orelse", "handlers", "finalbody", "cases", "bases", "keywords")
        value, parts = self._split(tree, dropped)
        if isinstance(tree, cst.ClassDef):
            parts["args"] = self._all([*tree.bases, *tree.keywords])
        if isinstance(tree, cst.Match):
            body, colon = self.block(tree.cases), tree.whitespace_after_colon
        else:
            suite = tree.body  # type: ignore[attr-defined]  # every other clause has one
            one_line = isinstance(suite, cst.SimpleStatementSuite)
            body = self.block(suite.body, suite=one_line)
            colon = suite.leading_whitespace if one_line else suite.header
        start = self._span(tree)[0]
        clause = Node(kind, value, {**parts, "body": body}, start, body[-1].end)
        clause.header_end = self._span(colon)[0]
        return clause

    # ----- expressions -----

    def _generic(self, tree: cst.CSTNode) -> Node:
        value, parts = self._split(tree, ())
        return self._make(tree, type(tree).__name__, value, parts)

    def _split(self, tree: cst.CSTNode, dropped: Sequence[str]) -> tuple[tuple[object, ...], Parts]:
        """A node's fields as atoms (names, operators) and parts (other nodes)."""
        value: list[object] = []
        parts: Parts = {}
        for name in _significant(type(tree)):
            if name in dropped:
                continue
            part = getattr(tree, name)
            kind: Any = type(part)
            if part is None:
                parts[name] = None
            elif _is_atom(kind):
                value.append(part if isinstance(part, str) else type(part).__name__)
            elif isinstance(part, list | tuple):
                parts[name] = self._all(part)
            else:
                parts[name] = self.node(part) if isinstance(part, cst.CSTNode) else None
        return tuple(value), parts

    def _make(self, tree: cst.CSTNode, kind: str, value: tuple[object, ...], parts: Parts) -> Node:
        start, end = self._span(tree)
        left, right = getattr(tree, "lpar", ()), getattr(tree, "rpar", ())
        pairs: tuple[tuple[int, int], ...] = ()
        if left and isinstance(left, list | tuple) and isinstance(right, list | tuple):
            opened = [self._span(paren)[0] for paren in reversed(left)]
            pairs = tuple(zip(opened, [self._span(paren)[1] for paren in right], strict=True))
        if kind == "Param":  # LibCST's span leaves out the annotation and the default
            end = max([end, *(part.outer[1] for part in parts.values() if isinstance(part, Node))])
        expression = _is_expression(type(tree)) and kind != "StarredElement"
        return Node(kind, value, parts, start, end, expression, pairs)

    def _all(self, trees: Iterable[cst.CSTNode]) -> tuple[Node, ...]:
        return tuple(self.node(tree) for tree in trees)

    def _span(self, tree: cst.CSTNode) -> tuple[int, int]:
        span = self._spans[tree]
        return span.start + self._shift, span.start + span.length + self._shift

    def boolean(self, tree: cst.BooleanOperation) -> Node:
        """Convert `a and b and c` to one node."""
        value = (type(tree.operator).__name__,)
        return self._make(tree, "Boolean", value, {"values": self._operands(tree)})

    def _operands(self, tree: cst.BooleanOperation) -> tuple[Node, ...]:
        """The operands of ``a and b and c`` as a flat tuple, as in Python's own tree."""
        left = tree.left
        same = isinstance(left, cst.BooleanOperation) and not left.lpar
        if same and type(left.operator) is type(tree.operator):  # type: ignore[attr-defined]
            return (*self._operands(left), self.node(tree.right))  # type: ignore[arg-type]
        return self.node(left), self.node(tree.right)

    def subscript(self, tree: cst.Subscript) -> Node:
        """Convert `a[b]`."""
        parts: Parts = {"value": self.node(tree.value), "slice": self._index(tree)}
        return self._make(tree, "Subscript", (), parts)

    def _index(self, tree: cst.Subscript) -> Node:
        """The index in the brackets: one index or slice, or a tuple of them."""
        elements = tuple(self.node(element.slice) for element in tree.slice)
        comma = tree.slice[-1].comma
        trailing = isinstance(comma, cst.Comma)
        if len(elements) == 1 and not trailing and elements[0].kind != "StarredElement":
            return elements[0]
        end = elements[-1].outer[1]
        if isinstance(comma, cst.Comma):
            end = self._span(comma)[0] + len(_code(comma.whitespace_before).encode()) + 1
        node = Node("Tuple", (), {"elements": elements}, elements[0].outer[0], end)
        node.is_expression = all(element.kind != "Slice" for element in elements)
        return node

    def argument(self, tree: cst.Arg) -> Node:
        """Convert an argument of a call."""
        if tree.keyword is None:
            return self.starred_or_plain(tree, tree.star)
        parts: Parts = {"keyword": self.node(tree.keyword), "value": self.node(tree.value)}
        return self._make(tree, "Keyword", (), parts)

    def starred_or_plain(self, tree: cst.Arg | cst.Index, star: str | None) -> Node:
        """Convert a value that may be starred."""
        value = self.node(tree.value)
        if not star:
            return value
        kind = "StarredElement" if star == "*" else "StarredDictElement"
        return self._make(tree, kind, (), {"value": value})

    def parameters(self, tree: cst.Parameters) -> Node:
        """Convert the parameters of a function to one list."""
        flat: list[object] = [*tree.posonly_params, tree.posonly_ind, *tree.params]
        flat += [tree.star_arg, *tree.kwonly_params, tree.star_kwarg]
        params = self._all(item for item in flat if isinstance(item, cst.CSTNode))
        return self._make(tree, "Parameters", (), {"params": params})

    def match_sequence(self, tree: cst.MatchList | cst.MatchTuple) -> Node:
        """Convert a sequence pattern, with or without brackets."""
        return self._make(tree, "MatchSequence", (), {"patterns": self._all(tree.patterns)})

    # ----- literals -----

    def number(self, tree: cst.Integer | cst.Float | cst.Imaginary) -> Node:
        """Convert a number to its value."""
        return self._make(tree, "Constant", _literal(tree.value), {})

    def string(self, tree: cst.BaseString) -> Node:
        """Convert a string, or several concatenated ones."""
        pieces: list[Node | tuple[str, str | bytes]] = []
        kind = self._pieces(tree, pieces)
        merged = self._merge(tree, pieces)
        if kind == "Constant" and len(merged) <= 1:
            return self._make(tree, kind, merged[0].value if merged else ("str", ""), {})
        return self._make(tree, kind, (), {"parts": tuple(merged)})

    def _pieces(self, tree: cst.BaseString, into: list[Node | tuple[str, str | bytes]]) -> str:
        """Collect a string's literal texts and interpolations in order; return the node's kind."""
        if isinstance(tree, cst.ConcatenatedString):
            kinds = {self._pieces(tree.left, into), self._pieces(tree.right, into)}
            return next((kind for kind in kinds if kind != "Constant"), "Constant")
        if isinstance(tree, cst.SimpleString):
            into.append(_literal(tree.value))  # type: ignore[arg-type]  # a str or bytes
            return "Constant"
        assert isinstance(tree, cst.FormattedString | cst.TemplatedString)
        self._interpolated(tree.parts, tree.start, into)
        return "JoinedStr" if isinstance(tree, cst.FormattedString) else "TemplateStr"

    def _interpolated(
        self, parts: Iterable[cst.CSTNode], start: str, into: list[Node | tuple[str, str | bytes]]
    ) -> None:
        for part in parts:
            if isinstance(part, cst.FormattedStringText | cst.TemplatedStringText):
                into.append(("str", _unescape(part.value, raw="r" in start.lower())))
                continue
            assert isinstance(part, cst.FormattedStringExpression | cst.TemplatedStringExpression)
            spec: list[Node | tuple[str, str | bytes]] = []
            self._interpolated(part.format_spec or (), start, spec)
            conversion = part.conversion
            if part.equal is not None:  # f"{x=}" is f"x={x!r}"
                into.append(("str", _shown(part)))
                conversion = conversion or (None if part.format_spec else "r")
            value = (conversion, part.format_spec is not None)
            inner: Parts = {
                "expression": self.node(part.expression),
                "spec": tuple(self._merge(part, spec)),
            }
            into.append(self._make(part, "Interpolation", value, inner))

    def _merge(
        self, tree: cst.CSTNode, pieces: Sequence[Node | tuple[str, str | bytes]]
    ) -> list[Node]:
        """Join adjacent literal texts to one constant, whose span is that of the whole string."""
        merged: list[Node] = []
        for piece in pieces:
            last = merged[-1] if merged else None
            if isinstance(piece, Node):
                merged.append(piece)
            elif last is not None and last.kind == "Constant":
                last.value = (piece[0], last.value[1] + piece[1])  # type: ignore[operator]
            elif piece[1] or len(pieces) == 1:
                merged.append(Node("Constant", piece, {}, *self._span(tree)))
        return merged


_CONVERSIONS: dict[type[cst.CSTNode], Callable[[_TreeReader, Any], Node]] = {
    **dict.fromkeys(
        (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString, cst.TemplatedString),
        _TreeReader.string,
    ),
    **dict.fromkeys((cst.Integer, cst.Float, cst.Imaginary), _TreeReader.number),
    **dict.fromkeys((cst.MatchList, cst.MatchTuple), _TreeReader.match_sequence),
    cst.BooleanOperation: _TreeReader.boolean,
    cst.Subscript: _TreeReader.subscript,
    cst.Element: lambda reader, tree: reader.node(tree.value),
    cst.AsName: lambda reader, tree: reader.node(tree.name),
    cst.Arg: _TreeReader.argument,
    cst.Parameters: _TreeReader.parameters,
    cst.Index: lambda reader, tree: reader.starred_or_plain(tree, tree.star),
}
"""How to convert the nodes that differ in our tree."""


def _code(space: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(space)


def _shown(part: cst.FormattedStringExpression | cst.TemplatedStringExpression) -> str:
    """The text that ``{x = }`` prints before the value."""
    assert part.equal is not None
    pieces = (part.whitespace_before_expression, part.expression, part.equal)
    return "".join(map(_code, pieces))


@lru_cache(maxsize=4096)
def _literal(code: str) -> tuple[str, str | bytes | int | float | complex]:
    """Return the type and the value of a literal."""
    value = ast.literal_eval(code)
    return type(value).__name__, value


def _unescape(text: str, raw: bool) -> str:
    """Return the value of a literal part of an f-string."""
    text = text.replace("{{", "{").replace("}}", "}")
    if raw or "\\" not in text:
        return re.sub(r"\r\n?", "\n", text)
    quoted = re.sub(r'(\\.)|"', lambda match: match[1] or '\\"', text, flags=re.DOTALL)
    return str(ast.literal_eval(f'"""{quoted}"""'))
