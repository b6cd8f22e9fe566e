"""Rewriting a function into different code that does exactly the same.

Every rewrite preserves results bit for bit, the order of evaluation, exceptions, signatures and
closures. No operands are exchanged and nothing is re-associated: `a + b` may concatenate or record
an op, and floating-point sums depend on their order.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from string import ascii_lowercase
from typing import Any

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Statements = list[ast.stmt]

BLOCKS = ("body", "orelse", "finalbody")
"""The fields of a statement that hold statements."""


@dataclass(frozen=True)
class Rewriter:
    """Rewrites functions at random.

    Parameters
    ----------
    random : Random
        Decides what is rewritten.
    fresh : callable
        Returns a name that the file does not use.
    rebound : set of str
        The names that a call may bind anew: those declared global or nonlocal.
    """

    random: Random
    fresh: Callable[[], str]
    rebound: frozenset[str] = frozenset()

    def rewrite(self, function: FunctionNode) -> None:
        """Rewrite a function in place."""
        expressions = _Expressions(self.random)
        for statement in function.body:
            expressions.visit(statement)  # in place: it replaces no statement
        function.body = self._block(function.body, readable(function))
        rename(function, {name: self.fresh() for name in renamable(function)})

    def spell_out(self, block: Statements) -> Statements:
        """Return the statements of a block with a name for each part that can have one."""
        return self._block(block, (), 1.0)

    def condition(self, value: bool) -> ast.expr:
        """Return an expression that always has this value, and that no compiler evaluates.

        A square leaves only some remainders. The expression uses only constants: it calls nothing
        that a test could replace, and nothing that raises an audit event, as `id` does.
        """
        modulus, shift = self.random.randrange(7, 200), self.random.randrange(1, 1000)
        remainders = {n * n % modulus for n in range(modulus)}
        never = self.random.choice([n for n in range(modulus) if n not in remainders])
        letters = self.random.sample(ascii_lowercase, 9)
        number = f"{''.join(letters)!r}.find({self.random.choice(letters)!r})"
        sign = "!=" if value else "=="
        text = f"({number} ** 2 + {shift}) % {modulus} {sign} {(never + shift) % modulus}"
        return ast.parse(text, mode="eval").body

    # ----- Statements -----

    def _block(self, block: Statements, names: Sequence[str], share: float = 0.6) -> Statements:
        out: Statements = []
        for position, statement in enumerate(block):
            first = position == 0 and _is_text(statement)
            if not isinstance(statement, FunctionNode | ast.ClassDef):
                for name in BLOCKS:
                    if inner := getattr(statement, name, None):
                        setattr(statement, name, self._block(inner, names, share))
            out += [statement] if first else self._statement(statement, share)
            if names and self.random.random() < 0.3 and not _ends(statement):
                out.append(self._idle(names))
        return out

    def _statement(self, statement: ast.stmt, share: float) -> Statements:
        """Return the statements that replace one."""
        match statement:
            case ast.If(orelse=[_, *_]) if self._perhaps(0.5):
                test, body, orelse = statement.test, statement.body, statement.orelse
                statement = ast.If(_negated(test), orelse, body)
            case ast.Return(value=ast.IfExp(test, one, other)) if self._perhaps(0.5):
                return [ast.If(test, [ast.Return(one)], []), ast.Return(other)]
            case ast.Assign(targets, ast.IfExp(test, one, other)) if self._perhaps(0.5):
                first, second = ast.Assign(targets, one), ast.Assign(deepcopy(targets), other)
                return [ast.If(test, [first], [second])]
        out: Statements = []
        for name in ("value", "test", "iter"):
            value = getattr(statement, name, None)
            # The test of a loop is evaluated again, and `x += value` reads x before the value.
            if isinstance(value, ast.expr) and not isinstance(statement, ast.While | ast.AugAssign):
                out, value = self._named_parts(value, share)
                setattr(statement, name, value)
        return [*out, statement]

    def _named_parts(self, value: ast.expr, share: float) -> tuple[Statements, ast.expr]:
        """Give names to a share of the parts that are evaluated first; return the rest."""
        out: Statements = []
        holder = ast.Expr(value)
        while self._perhaps(share):
            path = list(self._first_evaluated(holder))
            if not path:
                break
            parent, name, index = self.random.choice(path)
            part = _get(parent, name, index)
            own = self.fresh()
            out.append(ast.Assign([ast.Name(own, ast.Store())], part))
            _set(parent, name, index, ast.Name(own, ast.Load()))
        return out, holder.value

    def _first_evaluated(self, node: ast.AST) -> Iterator[Slot]:
        """Yield the places of the expressions before which nothing but names is evaluated.

        The outermost comes first.
        """
        for place in _parts(node):
            part = _get(*place)
            if isinstance(part, ast.Constant):
                continue
            if isinstance(part, ast.Name):
                if part.id in self.rebound:
                    return
                continue
            if not isinstance(part, ast.Starred):
                yield place
                yield from self._first_evaluated(part)
            return

    def _idle(self, names: Sequence[str]) -> ast.stmt:
        """Return a statement that has no effect."""
        value = ast.Name(self.random.choice(names), ast.Load())
        assignment = ast.Assign([ast.Name(self.fresh(), ast.Store())], value)
        if self._perhaps(0.5):
            return assignment
        return ast.If(self.condition(self._perhaps(0.5)), [assignment], [])

    def _perhaps(self, share: float) -> bool:
        return self.random.random() < share


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _ends(statement: ast.stmt) -> bool:
    """Whether nothing can follow a statement, or nothing may come before the next one."""
    return isinstance(
        statement,
        ast.Return | ast.Raise | ast.Continue | ast.Break | ast.Global | ast.Nonlocal,
    )


def _negated(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.UnaryOp(ast.Not(), test)


# ----- What is evaluated first -----

Slot = tuple[ast.AST, str, int | None]
"""A node, one of its fields, and a position if the field is a list."""


def _parts(node: ast.AST) -> Iterator[Slot]:
    """Yield the places of the parts of an expression that are always evaluated, in order."""
    match node:
        case ast.Expr() | ast.Attribute() | ast.Starred():
            yield node, "value", None
        case ast.Subscript():
            yield node, "value", None
            if not isinstance(node.slice, ast.Slice | ast.Tuple):
                yield node, "slice", None
        case ast.BinOp():
            yield node, "left", None
            yield node, "right", None
        case ast.Compare():
            yield node, "left", None
            yield node, "comparators", 0
        case ast.UnaryOp():
            yield node, "operand", None
        case ast.IfExp():
            yield node, "test", None
        case ast.BoolOp():
            yield node, "values", 0
        case ast.Tuple() | ast.List():
            for index in range(len(node.elts)):
                yield node, "elts", index
        case ast.Call():
            yield node, "func", None
            for index in range(len(node.args)):
                yield node, "args", index


def _get(node: ast.AST, name: str, index: int | None) -> ast.expr:
    value = getattr(node, name)
    part: ast.expr = value if index is None else value[index]
    return part


def _set(node: ast.AST, name: str, index: int | None, value: ast.expr) -> None:
    if index is None:
        setattr(node, name, value)
    else:
        getattr(node, name)[index] = value


# ----- Expressions -----

_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
    ast.Is: ast.Is,
    ast.IsNot: ast.IsNot,
}


_LEFT_OUT = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.JoinedStr, ast.pattern, ast.AnnAssign),
)


class _Expressions(ast.NodeTransformer):
    """Rewrites the expressions of a statement."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def visit(self, node: ast.AST) -> Any:
        """Skip what is not evaluated as written, and what belongs to another scope."""
        return node if isinstance(node, _LEFT_OUT) else super().visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """`x < 2` is `2 > x`: Python asks x in both cases."""
        self.generic_visit(node)
        (left, operator, right), more = (node.left, node.ops[0], node.comparators[0]), node.ops[1:]
        plain = isinstance(right, ast.Constant) and type(operator) in _MIRRORED and not more
        if plain and self._random.random() < 0.5:
            return ast.Compare(right, [_MIRRORED[type(operator)]()], [left])
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """`a if c else b` is `b if not c else a`."""
        self.generic_visit(node)
        if self._random.random() < 0.5:
            return ast.IfExp(_negated(node.test), node.orelse, node.body)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """The order of keyword arguments does not matter if evaluating them computes nothing."""
        if not (isinstance(node.func, ast.Name) and node.func.id in ("super", "dict")):
            self.generic_visit(node)
        simple = (isinstance(each.value, ast.Name | ast.Constant) for each in node.keywords)
        if all(each.arg for each in node.keywords) and all(simple):
            self._random.shuffle(node.keywords)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """`x` is `(x,)[0]`."""
        if isinstance(node.ctx, ast.Load) and self._random.random() < 0.1:
            pair = ast.Tuple([node], ast.Load())
            return ast.Subscript(pair, ast.Constant(0), ast.Load())
        return node


# ----- Names -----

_SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


def own_nodes(function: FunctionNode) -> Iterator[ast.AST]:
    """Yield the nodes of a function's body, but none from inside a nested scope."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, _SCOPES):
            pending += ast.iter_child_nodes(node)


def parameters(function: FunctionNode) -> list[str]:
    """Return the names of a function's parameters."""
    spec = function.args
    starred = [item for item in (spec.vararg, spec.kwarg) if item]
    return [item.arg for item in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *starred)]


def readable(function: FunctionNode) -> list[str]:
    """Return the parameters of a function that it can always read: it deletes none of them."""
    nodes = ast.walk(function)
    deleted = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del)}
    return [name for name in parameters(function) if name not in deleted]


def bound(function: FunctionNode) -> set[str]:
    """Return the names that a function binds, other than its parameters."""
    names = {
        name for node in ast.walk(function) for name in _bindings(node) if node is not function
    }
    return names - set(parameters(function))


def renamable(function: FunctionNode) -> list[str]:
    """Return the local variables that can be renamed: only plain assignments bind them.

    A name that a nested scope binds too is left out, as is every name if the function may look
    names up by their text.
    """
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    if used & {"locals", "vars", "eval", "exec", "dir"}:
        return []
    own = set(map(id, own_nodes(function)))
    plain: dict[str, None] = {}
    other = set(parameters(function))
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) in own:
            plain[node.id] = None
        elif node is not function:
            other.update(_bindings(node))
    return [name for name in plain if name not in other]


def rename(function: FunctionNode, names: dict[str, str]) -> None:
    """Rename local variables of a function, in the scopes nested in it too."""
    for statement in function.body:  # decorators and default arguments are outside of its scope
        for node in ast.walk(statement):
            if isinstance(node, ast.Name):
                node.id = names.get(node.id, node.id)


def _bindings(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node itself binds or declares."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Global(names=several) | ast.Nonlocal(names=several):
            yield from several
        case ast.alias(name=name, asname=other):
            yield other or name.partition(".")[0]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
