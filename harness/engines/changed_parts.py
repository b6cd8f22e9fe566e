"""The parts of expressions that a patch changes, old and new, whose values are recorded.

Both texts of a site are compared as syntax trees, down to the smallest expressions that differ and
have a value of their own: of ``unbroadcast(g * b, a.shape)`` and ``unbroadcast(g * a, a.shape)``,
these are ``b`` and ``a``. The value of each is recorded in the text that contains it, so nothing is
evaluated twice, or in the other engine. If a site changes more than such parts, nothing is recorded
there: then the values would not belong together.

    a part             its value is recorded: ``part(NUMBER, E)``
    an ``if``          that only one text has around the same statements: its test
    a factor, a term   that only one text has: its value as well, since it may change nothing
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import NamedTuple

from harness.core.site import Site


class ChangedPart(NamedTuple):
    """An expression in one text of an engine, and what takes its place in the other."""

    node: ast.expr | None
    """None if this text has no such expression."""
    other: ast.expr | None
    operand: ast.expr | None = None
    """The factor or term of `node` that `other` does not have, if that is the only difference."""
    neutral: int = 0
    """The value of the operand, or of the test, with which both texts do the same."""


def changed_parts(tree: ast.Module, text: bytes, site: Site) -> list[ChangedPart]:
    """Return the parts of `tree`, which was parsed from `text`, that the site changes.

    Their order is the same for the patched and for the original text. Empty if the site changes
    anything else, or cannot be undone by itself.
    """
    other = text[: site.start] + site.before.encode() + text[site.end :]
    try:
        undone = ast.parse(other.decode("utf-8-sig"))
        return list(_in_block(tree.body, undone.body))
    except (_OtherChange, SyntaxError, ValueError, RecursionError):
        return []


class _OtherChange(Exception):
    """Something that is not a part of an expression differs."""


# ----- Statements -----


def _in_block(own: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> Iterator[ChangedPart]:
    texts = [[ast.dump(statement) for statement in block] for block in (own, other)]
    matcher = SequenceMatcher(None, texts[0], texts[1], autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            yield from _in_replaced(own[a:b], other[c:d])


def _in_replaced(own: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> Iterator[ChangedPart]:
    """Yield the parts of statements that replace each other."""
    if len(own) == len(other):
        for pair in zip(own, other, strict=True):
            yield from _in_statements(*pair)
    else:
        yield from _in_guard(own, other)


def _in_guard(own: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> Iterator[ChangedPart]:
    if guard := _guard(own, other):
        yield ChangedPart(guard[0], None, neutral=guard[1])
    elif guard := _guard(other, own):
        yield ChangedPart(None, guard[0], neutral=guard[1])
    else:
        raise _OtherChange


def _guard(block: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> tuple[ast.expr, int] | None:
    """Return the test of an `if` of which the other text has only the body, the alternative, or
    nothing; and 1 if both texts do the same where it holds, 0 where it does not.
    """
    if len(block) != 1 or not isinstance(block[0], ast.If):
        return None
    rest, body, alternative = (
        [ast.dump(one) for one in part] for part in (other, block[0].body, block[0].orelse)
    )
    return (block[0].test, int(rest == body)) if rest in (body, alternative) else None


def _in_statements(own: ast.stmt, other: ast.stmt) -> Iterator[ChangedPart]:
    if type(own) is not type(other):
        yield from _in_guard([own], [other])
        return
    for name in own._fields:
        mine, its = getattr(own, name), getattr(other, name)
        if isinstance(mine, list) and any(isinstance(one, ast.stmt) for one in (*mine, *its)):
            yield from _in_block(mine, its)
        elif isinstance(mine, ast.expr) and isinstance(its, ast.expr):
            yield from _in_expressions(mine, its)
        elif _dumped(mine) != _dumped(its):
            raise _OtherChange


def _dumped(value: object) -> object:
    """Return a field of a node in a form that can be compared."""
    if isinstance(value, list):
        return [_dumped(item) for item in value]
    return ast.dump(value) if isinstance(value, ast.AST) else value


def _in_expressions(own: ast.expr, other: ast.expr) -> Iterator[ChangedPart]:
    """Yield the parts of two whole expressions."""
    if ast.dump(own) == ast.dump(other):
        return
    parts = _parts(own, other)
    if parts is None:
        if not (_is_value(own) and _is_value(other)):
            raise _OtherChange
        parts = [_pair(own, other)]
    yield from parts


# ----- Expressions -----

_OPAQUE = (ast.JoinedStr, ast.Lambda, ast.NamedExpr, ast.Starred, ast.Slice, ast.Yield, ast.Await)


def _parts(own: ast.AST, other: ast.AST) -> list[ChangedPart] | None:
    """Return the smallest parts of two different nodes; None if only what contains them has a
    value, or one that says something.
    """
    is_pair = _is_value(own) and _is_value(other)
    if isinstance(own, ast.Constant) and isinstance(other, ast.Constant):
        return None
    if type(own) is not type(other) or isinstance(own, _OPAQUE) or _is_form(own):
        return [_pair(own, other)] if is_pair else None
    found: list[ChangedPart] = []
    for name in own._fields:
        mine, its = getattr(own, name), getattr(other, name)
        if isinstance(own, ast.Call) and name == "func":
            if ast.dump(mine) == ast.dump(its):
                continue
            if not (isinstance(mine, ast.Attribute) and isinstance(its, ast.Attribute)):
                return [_pair(own, other)]
        pairs = _children(mine, its)
        inner = None if pairs is None else _in_children(pairs)
        if inner is None or (
            name == "func" and any(part.node is mine or part.node is None for part in inner)
        ):
            return [_pair(own, other)] if is_pair else None
        found += inner
    return found


def _is_form(node: ast.AST) -> bool:
    """Whether a node reads the shape, size or dtype of an array, which says more than the array."""
    match node:
        case ast.Attribute(attr="shape" | "ndim" | "size" | "dtype"):
            return True
        case ast.Subscript(value=value):
            return _is_form(value)
        case ast.Call(func=ast.Name(id="len")):
            return True
    return False


def _in_children(pairs: Sequence[tuple[ast.AST, ast.AST]]) -> list[ChangedPart] | None:
    found: list[ChangedPart] = []
    for one, another in pairs:
        if ast.dump(one) == ast.dump(another):
            continue
        inner = _parts(one, another)
        if inner is None:
            return None
        found += inner
    return found


def _children(own: object, other: object) -> list[tuple[ast.AST, ast.AST]] | None:
    """Return the nodes of a field side by side; None if it differs in another way."""
    mine, its = (value if isinstance(value, list) else [value] for value in (own, other))
    pairs: list[tuple[ast.AST, ast.AST]] = []
    for one, another in zip_longest(mine, its):
        if isinstance(one, ast.AST) and isinstance(another, ast.AST):
            pairs.append((one, another))
        elif one != another:
            return None
    return pairs


def _is_value(node: ast.AST) -> bool:
    """Whether a node is an expression that is evaluated by itself."""
    is_read = isinstance(getattr(node, "ctx", None), ast.Load | None)
    if isinstance(node, ast.Tuple) and any(isinstance(one, ast.Slice) for one in node.elts):
        return False  # it is written only inside brackets: `1, a:b`
    return isinstance(node, ast.expr) and is_read and not isinstance(node, _OPAQUE)


def _pair(own: ast.AST, other: ast.AST) -> ChangedPart:
    assert isinstance(own, ast.expr)
    assert isinstance(other, ast.expr)
    if isinstance(own, ast.BinOp) and type(own.op) in _NEUTRAL:
        neutral, commutes = _NEUTRAL[type(own.op)]
        rest = ast.dump(_uncopied(other))
        if ast.dump(own.left) == rest:
            return ChangedPart(own, other, own.right, neutral)
        if ast.dump(own.right) == rest and commutes:
            return ChangedPart(own, other, own.left, neutral)
    return ChangedPart(own, other)


_NEUTRAL: dict[type[ast.operator], tuple[int, bool]] = {
    ast.Mult: (1, True),
    ast.Div: (1, False),
    ast.Pow: (1, False),
    ast.Add: (0, True),
    ast.Sub: (0, False),
}
"""For each operator, the right operand that changes nothing; whether a left one does, too."""


def _uncopied(node: ast.expr) -> ast.expr:
    """Return `x` of ``x.copy()``."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="copy"), args=[], keywords=[]):
            return value
    return node
