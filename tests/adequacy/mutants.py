"""The backward rules of minigrad, and every single-site mutant of them.

A rule is what only the backward pass needs of an op: its `vjp`, what it prepares for its `vjp`
alone, and the helper functions that nothing else calls.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from pathlib import Path

from tests.strength.mutants import Edit, Mutant, Text, edits, executed


@dataclass(frozen=True)
class Rule:
    """The backward rule of one op, or a helper of several."""

    path: str
    """The file, relative to the root of the repository."""
    function: str
    operands: tuple[str, ...]
    """The names of the arrays that the op takes."""
    statements: tuple[ast.stmt, ...]

    @property
    def place(self) -> str:
        """The function, or the class of a method, as `path:name`."""
        return f"{self.path}:{self.function.partition('.')[0]}"

    @property
    def name(self) -> str:
        """The function, as in `elementwise.add`."""
        return f"{Path(self.path).stem}.{self.function}"


def find_rules(root: Path) -> list[Rule]:
    """Return the rules of minigrad's ops and their helpers, by function name."""
    sources = {
        file.relative_to(root).as_posix(): ast.parse(file.read_bytes())
        for file in sorted((root / "minigrad").rglob("*.py"))
    }
    functions = [
        (path, node)
        for path, tree in sources.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    ]
    rules = [
        Rule(path, function.name, _operands(function), tuple(statements))
        for path, function in functions
        if (statements := _backward_statements(function))
    ]
    found = -1
    while found != len(rules):  # a helper may have helpers
        found = len(rules)
        known = {(rule.path, rule.function) for rule in rules}
        inside = [name for rule in rules for part in rule.statements for name in _loaded(part)]
        everywhere = [name for tree in sources.values() for name in _loaded(tree)]
        rules += [
            Rule(path, function.name, _operands(function), tuple(function.body[1:]))
            for path, function in functions
            if (path, function.name) not in known
            if 0 < inside.count(function.name) == everywhere.count(function.name)
        ]
    return sorted(rules, key=lambda rule: (rule.function, rule.path))


LATER = ("avg_pool2d", "cumprod", "cumsum", "index_add", "prod", "silu", "solve", "sort", "to")
"""The ops whose rules are measured since the others were set aside, with probes of their own."""


def set_aside(rules: Sequence[Rule]) -> list[Rule]:
    """Return every third rule in the order of the names: no probe was designed on these."""
    return [rule for rule in rules if rule.function not in LATER][2::3]


def mutants(root: Path, rule: Rule) -> list[Mutant]:
    """Return all single-site mutants of a rule, in the order of the text."""
    source = (root / rule.path).read_bytes()
    text = Text(source)
    found = {
        Mutant(rule.path, start, end, replacement, kind)
        for statement in rule.statements
        for node in executed(statement)
        for kind, start, end, replacement in (*_common(node, text), *_own(node, text, rule))
    }
    (function,) = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == rule.function
    ]
    start, end = text.span(function)
    programs: dict[str, Mutant | None] = {_dump(source[start:end]): None}
    for mutant in sorted(found):
        mutated = mutant.apply(source)
        if program := _dump(mutated[start : end + len(mutated) - len(source)]):
            programs.setdefault(program, mutant)
    return [mutant for mutant in programs.values() if mutant]


def _dump(function: bytes) -> str:
    """The text's syntax tree; empty if it is not Python."""
    try:
        return ast.dump(ast.parse(function))
    except SyntaxError:
        return ""


# ----- What is a rule -----


def _operands(function: ast.FunctionDef) -> tuple[str, ...]:
    return tuple(
        argument.arg
        for argument in function.args.args
        if isinstance(argument.annotation, ast.Name) and argument.annotation.id == "Array"
    )


def _backward_statements(function: ast.FunctionDef) -> list[ast.stmt]:
    """The nested functions of an op, and the assignments whose names only these load."""
    own = [part for part in function.body if isinstance(part, ast.FunctionDef)]
    if not any(part.name == "vjp" for part in own):
        return []
    for part in reversed(function.body):
        if isinstance(part, ast.Assign):
            others = [other for other in function.body if other not in own and other is not part]
            loaded = {name for other in others for name in _loaded(other)}
            stored = {n.id for target in part.targets for n in ast.walk(target) if _is_name(n)}
            if not stored & loaded:
                own.append(part)
    return own


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def _loaded(tree: ast.AST) -> list[str]:
    """The names that are loaded, without those in annotations."""
    return [
        node.id
        for node in executed(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    ]


# ----- The changes -----


def _common(node: ast.AST, text: Text) -> Iterator[Edit]:
    """The changes that the harness's own mutants have, but for lost return values."""
    for edit in edits(node, text):
        if edit[0] != "return":  # no rule without a result is worth a measurement
            yield edit


def _own(node: ast.AST, text: Text, rule: Rule) -> Iterator[Edit]:
    """The changes that matter in a rule."""
    if isinstance(node, ast.BinOp):
        yield from _binary(node, text)
    elif isinstance(node, ast.Call):
        yield from _call(node, text)
    elif isinstance(node, ast.Attribute) and node.attr == "T":
        yield "call dropped", *text.span(node), _wrapped(text, node.value)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield "index dropped", *text.span(node), _wrapped(text, node.value)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        if node.id in rule.operands:
            for other in rule.operands:
                yield "operand", *text.span(node), other
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        if reverse := _REVERSED.get(type(node.ops[0])):
            left, right = _wrapped(text, node.left), _wrapped(text, node.comparators[0])
            yield "comparison", *text.span(node), f"{left} {reverse} {right}"
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "constant", *text.span(node), f"({node.value - 1})"
    elif isinstance(node, ast.AugAssign):
        target, value = text.of(node.target), text.of(node.value)
        yield "accumulation", *text.span(node), f"{target} = {value}"
        sign = "-" if isinstance(node.op, ast.Add) else "+"
        yield "accumulation", *text.span(node), f"{target} {sign}= {value}"
    elif isinstance(node, ast.FunctionDef):
        yield from _returned(node, text)
    tests = [node.test] if isinstance(node, ast.If | ast.IfExp) else []
    tests += node.ifs if isinstance(node, ast.comprehension) else []
    for test in tests:
        for value in ("True", "False"):
            yield "condition", *text.span(test), value


_REVERSED: dict[type[ast.cmpop], str] = {
    ast.Lt: ">",
    ast.LtE: ">=",
    ast.Gt: "<",
    ast.GtE: "<=",
}


def _binary(node: ast.BinOp, text: Text) -> Iterator[Edit]:
    left, right = _wrapped(text, node.left), _wrapped(text, node.right)
    for operand in (left, right):
        yield "operand dropped", *text.span(node), operand
    if not isinstance(node.op, ast.Add | ast.Mult):
        operator = ast.unparse(ast.BinOp(ast.Name("a"), node.op, ast.Name("b")))[1:-1]
        yield "operands swapped", *text.span(node), f"({right}{operator}{left})"
    if isinstance(node.op, ast.MatMult):
        for part in (node.left, node.right):
            yield "transposed", *text.span(part), f"{_wrapped(text, part)}.swapaxes(-1, -2)"


def _call(node: ast.Call, text: Text) -> Iterator[Edit]:
    """A call replaced by what it is applied to, arguments dropped, neighbours exchanged."""
    method = isinstance(node.func, ast.Attribute) and not _is_module(node.func.value)
    if method:
        assert isinstance(node.func, ast.Attribute)
        yield "call dropped", *text.span(node), _wrapped(text, node.func.value)
    elif node.args and not isinstance(node.args[0], ast.GeneratorExp):
        yield "call dropped", *text.span(node), _wrapped(text, node.args[0])
    for keyword in node.keywords:
        others = [other for other in node.keywords if other is not keyword]
        yield "argument dropped", *text.span(node), _unparsed(node.func, node.args, others)
    if method:
        for argument in node.args:
            rest = [other for other in node.args if other is not argument]
            yield "argument dropped", *text.span(node), _unparsed(node.func, rest, node.keywords)
    if len(node.args) > 2:
        for first, second in pairwise(range(len(node.args))):
            order = list(node.args)
            order[first], order[second] = order[second], order[first]
            yield "swap", *text.span(node), _unparsed(node.func, order, node.keywords)


def _returned(function: ast.FunctionDef, text: Text) -> Iterator[Edit]:
    """The cotangents that a rule returns, with another sign, twice as large, or exchanged."""
    for node in function.body:
        if not (isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)):
            continue
        parts = node.value.elts
        for part in parts:
            yield "negated", *text.span(part), f"-{_wrapped(text, part)}"
            yield "doubled", *text.span(part), f"2 * {_wrapped(text, part)}"
        for one, other in permutations(range(len(parts)), 2):
            if one < other:
                order = [text.of(part) for part in parts]
                order[one], order[other] = order[other], order[one]
                yield "swap", text.span(parts[0])[0], text.span(parts[-1])[1], ", ".join(order)


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("np", "math", "string")


def _wrapped(text: Text, node: ast.expr) -> str:
    return f"({text.of(node)})"


def _unparsed(
    function: ast.expr, arguments: Sequence[ast.expr], keywords: Sequence[ast.keyword]
) -> str:
    return ast.unparse(ast.Call(function, list(arguments), list(keywords)))
