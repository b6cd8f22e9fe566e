"""The reason why a mutant survives: the inputs hide it, or no assertion looks at its numbers.

Both versions of a file are compiled into one, in which the changed functions call
`harness.runs.comparison`. It runs both on the arguments of every call that the tests make.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import count
from types import CodeType
from typing import TYPE_CHECKING, TypeGuard

import msgspec

from harness.core.vocabulary import Variation
from harness.engines.engine import Engine
from harness.grade.protocol import pack
from harness.grade.rewriting import BLOCKS, FunctionNode, Statements, own_nodes
from harness.grade.suite import CallProperty, Reason, ReasonKind
from harness.grade.twins import Merger
from harness.patch.side import quiet_parse
from harness.rules import find_rules
from harness.runs.comparison import (
    BODY,
    CHANGED,
    COMPARE,
    MOST_CALLS,
    CallComparison,
    Role,
)
from harness.runs.facts import PROPERTIES, Fact, PropertyKind

if TYPE_CHECKING:
    from harness.grade.mutants import Mutant


def reason_of(
    comparison: CallComparison | None, tests: Sequence[str], *, is_bug: bool = False
) -> Reason:
    """Return the reason that a comparison of calls shows.

    `tests` are the names of the tests. What is known to be a bug is not called equivalent.
    """
    if comparison is None:
        return Reason("not-measured")
    calls = comparison.calls or comparison.forwards
    more = comparison.more or comparison.forwards == calls == MOST_CALLS
    if comparison.wrong_test is not None:
        test = tests[comparison.wrong_test] if comparison.wrong_test >= 0 else ""
        return Reason("assertion", calls, more, test, comparison.wrong_call)
    if comparison.unmeasured or not calls:
        return Reason("not-measured", calls, more)
    telling = [
        CallProperty(kind, argument)
        for kind, argument in sorted(comparison.common or (), key=_rank)
        if _may_explain(kind, argument, comparison)
    ]
    is_hidden = comparison.reveals or telling or not comparison.calls or is_bug
    kind: ReasonKind = "inputs" if is_hidden else "same"
    return Reason(kind, calls, more, common=telling, reveals=sorted(comparison.reveals))


def _rank(fact: Fact) -> tuple[int, str]:
    return PROPERTIES.index(fact[0]), fact[1]


def _may_explain(kind: PropertyKind, argument: str, comparison: CallComparison) -> bool:
    """Whether a property can be why the numbers are right: some were changed, to see that."""
    reveals = comparison.reveals
    match kind:
        case "no-gradient":
            return "needed" in reveals
        case "contiguous":
            return "layout" in reveals
        case "all-require-grad":
            return "frozen" in reveals
        case "ones" | "zeros" | "one-sign" | "scale-1" if argument in comparison.written:
            return "written" in reveals
        case "ones" | "zeros" | "one-sign" | "scale-1" if argument not in comparison.counts:
            is_free = any(_is_part(argument, one) for one in comparison.cotangents)
            return "values" in reveals if is_free else _needs_operands(reveals)
        case _:
            return not reveals or _needs_operands(reveals)


def _is_part(argument: str, name: str) -> bool:
    """Whether an argument is the one of this name, or in it: `g`, `g[0]`, `g.data`, not `gain`."""
    return argument == name or argument.startswith((f"{name}.", f"{name}["))


def _needs_operands(reveals: Collection[Variation]) -> bool:
    """Whether only other operands show a wrong number, and not already another cotangent."""
    return "operands" in reveals and not {"values", "written", "frozen"} & set(reveals)


# ----- A file with both versions -----


def with_both_versions(mutant: Mutant, engine: Engine) -> Mutant | None:
    """Return a mutant whose code compares two versions; None if they cannot be compared."""
    codes: dict[str, CodeType] = {}
    for file, text in mutant.files.texts.items():
        code = side_by_side(file, engine.sources[file], text, str(engine.root / file))
        if code is None:
            return None
        codes[file] = code
    return replace(mutant, files=msgspec.structs.replace(mutant.files, codes=pack(codes)))


def side_by_side(file: str, clean: str, broken: str, path: str) -> CodeType | None:
    """Return the code of a file that contains two versions, and compares them at every call.

    None if they differ outside functions, or if a changed function cannot be called twice.
    """
    tree, other = quiet_parse(clean), quiet_parse(broken)
    names = map("breaklab_{}".format, count())
    merger = Merger(_fork, names.__next__)
    tree.body = merger.merge(tree.body, other.body)
    if any(isinstance(place.owner, ast.If) for place in merger.places):
        return None
    optional = sorted(set(_telling_names(tree.body, frozenset())))
    operands = _operands(tree, frozenset())
    for function, role, cotangents in _boundaries(tree, merger.changed, file, clean):
        if not isinstance(function, ast.Lambda) and _suspends(function):
            return None
        _wrap(function, role, cotangents, optional, sorted(operands[function]))
    return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


AnyFunction = FunctionNode | ast.Lambda
_SUSPENDING = (ast.Yield, ast.YieldFrom, ast.Await)


def _fork(clean: Statements, broken: Statements, _in_function: bool) -> ast.If:
    condition = ast.Call(ast.Name(CHANGED, ast.Load()), [], [])
    return ast.If(condition, broken or [ast.Pass()], clean or [ast.Pass()])


def _telling_names(statements: Statements, conditions: frozenset[str]) -> Iterator[str]:
    """Yield the names whose value None may explain that both versions give the same numbers.

    One version uses them and the other does not, or they decide whether changed code runs.
    `conditions` are the names that decide whether the statements run.
    """
    for statement in statements:
        if _is_fork(statement):
            yield from conditions
            ours, theirs = (Counter(_names(side)) for side in (statement.orelse, statement.body))
            yield from (ours - theirs) + (theirs - ours)
            yield from _tested([*statement.orelse, *statement.body])
            continue
        inner = conditions
        if isinstance(statement, ast.If | ast.While):
            inner |= set(_names([statement.test]))
        if isinstance(statement, FunctionNode | ast.ClassDef):
            inner = frozenset()
        for name in BLOCKS:
            yield from _telling_names(getattr(statement, name, []), inner)
        if isinstance(statement, ast.If) and isinstance(statement.body[-1], _JUMPS):
            conditions = inner


_JUMPS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def _is_fork(statement: ast.stmt) -> TypeGuard[ast.If]:
    if not isinstance(statement, ast.If) or not isinstance(statement.test, ast.Call):
        return False
    return isinstance(statement.test.func, ast.Name) and statement.test.func.id == CHANGED


def _names(nodes: Sequence[ast.AST]) -> Iterator[str]:
    walk = (inner for node in nodes for inner in ast.walk(node))
    return (node.id for node in walk if isinstance(node, ast.Name))


def _tested(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Return the names in the conditions of statements."""
    walk = (inner for node in nodes for inner in ast.walk(node))
    return _names([one.test for one in walk if isinstance(one, ast.If | ast.IfExp | ast.While)])


def _boundaries(
    tree: ast.Module, changed: Sequence[FunctionNode], file: str, text: str
) -> Iterator[tuple[AnyFunction, Role, Sequence[str]]]:
    """Yield the functions whose calls are compared, innermost first, with their roles."""
    rules = find_rules({file: text})
    cotangents = {one.line: one.cotangents for rule in rules for one in rule.functions}
    nested = {
        inner
        for function in changed
        for inner in ast.walk(function)
        if isinstance(inner, FunctionNode | ast.Lambda) and inner is not function
    }
    outer = [function for function in changed if function not in nested]
    users: set[int] = set()
    savers: set[int] = set()
    for rule in rules:
        saving = {one.line for one in rule.functions if one.side == "forward"}
        using = {one.line for one in rule.functions if one.side == "backward"}
        if changed_savers := saving & {function.lineno for function in outer}:
            savers |= changed_savers
            users |= using
    for node in reversed(list(ast.walk(tree))):
        if not isinstance(node, FunctionNode | ast.Lambda):
            continue
        own = cotangents.get(node.lineno, ())
        if node in outer:
            yield node, "forward" if node.lineno in savers else "changed", own
        elif node in nested:
            if isinstance(node, ast.Lambda) or not _suspends(node):
                yield node, "inner", own
        elif node.lineno in users:
            yield node, "rule", own


def _suspends(function: FunctionNode) -> bool:
    return any(isinstance(node, _SUSPENDING) for node in own_nodes(function))


def _operands(node: ast.AST, outer: frozenset[str]) -> dict[ast.AST, frozenset[str]]:
    """Return the parameters of each function below a node, with those of enclosing functions."""
    found: dict[ast.AST, frozenset[str]] = {}
    if isinstance(node, FunctionNode | ast.Lambda):
        outer |= {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
        found[node] = outer
    for child in ast.iter_child_nodes(node):
        found |= _operands(child, outer)
    return found


def _wrap(
    function: AnyFunction,
    role: Role,
    cotangents: Sequence[str],
    optional: Sequence[str],
    operands: Sequence[str],
) -> None:
    """Let a function call the comparer, with its own statements as an inner function."""
    spec = function.args
    names = [one.arg for one in (*spec.posonlyargs, *spec.args)]
    names += [one.arg for one in (spec.vararg, *spec.kwonlyargs, spec.kwarg) if one]
    plain = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
    values = ast.Tuple([ast.Name(name, ast.Load()) for name in names], ast.Load())
    arguments: list[ast.expr] = [
        ast.Name(BODY, ast.Load()),
        ast.Constant(role),
        _strings(names),
        values,
        _strings(cotangents),
        _strings(optional),
        _strings(operands),
    ]
    call = ast.Call(ast.Name(COMPARE, ast.Load()), arguments, [])
    if isinstance(function, ast.Lambda):
        arguments[0] = ast.Lambda(plain, function.body)
        function.body = call
        return
    start = int(ast.get_docstring(function) is not None)
    body = ast.FunctionDef(BODY, plain, function.body[start:] or [ast.Pass()], [])
    if "type_params" in ast.FunctionDef._fields:  # since Python 3.12
        setattr(body, "type_params", [])  # noqa: B010
    function.body = [*function.body[:start], body, ast.Return(call)]


def _strings(names: Sequence[str]) -> ast.Tuple:
    return ast.Tuple([ast.Constant(name) for name in names], ast.Load())
