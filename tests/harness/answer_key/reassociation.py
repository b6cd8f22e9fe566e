"""Random rewrites of an engine that are correct up to rounding, and one that is slightly wrong."""

import random
from dataclasses import replace
from typing import Any

import libcst as cst
import libcst.matchers as m

from harness.engines.engine import Engine

FILES = {
    f"minigrad/{name}.py"
    for name in (
        *("elementwise", "reductions", "logits", "layer_ops", "losses", "linalg", "optim"),
        *("nn/normalisation", "nn/layers", "nn/attention", "metrics", "data"),
    )
}
"""The files with formulas; elsewhere `+` and `*` are for shapes, names and lists."""

Operator = cst.BaseBinaryOp


def reassociated(engine: Engine, seed: int) -> tuple[Engine, int]:
    """Return the engine with half of its formulas associated in another way, and their number."""
    rewriter = _Reassociation(random.Random(seed))
    sources = dict(engine.sources)
    for file in FILES:
        sources[file] = cst.parse_module(sources[file]).visit(rewriter).code
    return replace(engine, sources=sources), rewriter.count


def slightly_wrong(engine: Engine, seed: int) -> tuple[Engine, str]:
    """Return the engine with one product or quotient too large by a millionth, and its code."""
    places = [
        (file, node)
        for file in sorted(FILES)
        for node in m.findall(cst.parse_module(engine.sources[file]), _PRODUCT)
    ]
    file, chosen = random.Random(seed).choice(places)
    module = cst.parse_module(engine.sources[file])
    code = module.code_for_node(chosen)
    wrong = cst.parse_expression(f"(({code}) * 1.000001)")
    target = next(n for n in m.findall(module, _PRODUCT) if module.code_for_node(n) == code)
    changed = module.deep_replace(target, wrong).code
    return replace(engine, sources={**engine.sources, file: changed}), f"{file}: {code}"


_PRODUCT = m.BinaryOperation(operator=m.Multiply() | m.Divide())


class _Reassociation(cst.CSTTransformer):
    """Changes the order of operations.

    `(a * b) / c` becomes `a * (b / c)`, `a + b + c` becomes `a + (b + c)`, `a / b` becomes
    `a * (1 / b)`, and `a * (b - c)` becomes `a * b - a * c`.
    """

    def __init__(self, choose: random.Random) -> None:
        self.choose, self.count = choose, 0

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Any:
        """Return the node, in another order if it is an operation that is chosen."""
        node = super().on_leave(original_node, updated_node)
        rewritten = _other(node) if isinstance(node, cst.BinaryOperation) else None
        if rewritten is None or self.choose.random() < 0.5:
            return node
        self.count += 1
        return rewritten


def _other(node: cst.BinaryOperation) -> cst.BaseExpression | None:
    """Return an expression that has the same value in exact arithmetic; None if there is none."""
    match node:
        case cst.BinaryOperation(
            left=cst.BinaryOperation(left=a, operator=first, right=b), operator=second, right=c
        ) if inner := _inner(first, second):
            return _operation(a, first, _operation(b, inner, c))
        case cst.BinaryOperation(left=a, operator=cst.Divide(), right=b):
            return _operation(a, cst.Multiply(), _operation(cst.Integer("1"), cst.Divide(), b))
        case cst.BinaryOperation(
            left=a,
            operator=cst.Multiply(),
            right=cst.BinaryOperation(left=b, operator=cst.Add() | cst.Subtract() as sign, right=c),
        ):
            return _operation(
                _operation(a, cst.Multiply(), b), sign, _operation(a, cst.Multiply(), c)
            )
    return None


def _inner(first: Operator, second: Operator) -> Operator | None:
    """Return the operator with which `(a first b) second c` is `a first (b inner c)`."""
    match first, second:
        case (cst.Multiply(), cst.Multiply() | cst.Divide()) | (
            cst.Add(),
            cst.Add() | cst.Subtract(),
        ):
            return second
        case cst.Divide(), cst.Divide():
            return cst.Multiply()
        case cst.Subtract(), cst.Subtract():
            return cst.Add()
        case cst.Subtract(), cst.Add():
            return cst.Subtract()
    return None


def _operation(
    left: cst.BaseExpression, operator: Operator, right: cst.BaseExpression
) -> cst.BaseExpression:
    brackets = {"lpar": [cst.LeftParen()], "rpar": [cst.RightParen()]}
    return cst.BinaryOperation(_bracketed(left), operator, _bracketed(right), **brackets)


def _bracketed(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(
        lpar=[cst.LeftParen(), *node.lpar], rpar=[*node.rpar, cst.RightParen()]
    )
