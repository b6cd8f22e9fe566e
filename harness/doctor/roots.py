"""The roots of findings: what the probes that show a bug have in common, and the others do not.

A bug in one rule shows in every probe that uses it. So the findings are grouped by the feature
that explains most of them: an op, an op that broadcasts in some way, or a tensor that is used
twice. The features of a probe are read from the backward walk that minigrad records for it.
Features are ranked by Ochiai's coefficient, as in spectrum-based fault localisation (Abreu,
Zoeteweij and van Gemund, An Evaluation of Similarity Coefficients for Software Fault Localization,
PRDC 2006), from the share of the findings that have the feature and the share of the probes with
the feature that are findings. The place in the user's source is found in the same way, from the
functions that each probe calls.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

import numpy as np

from harness.core.report import SiteReport
from harness.core.run import TraceStep
from harness.engines.engine import Engine
from harness.pages.probe import Leaf, Probe
from harness.patch.scope import OPERATIONS, is_operation
from harness.patch.side import quiet_parse


class Use(StrEnum):
    """How a tensor or an op is used. Of equally good features, the last in this order counts."""

    BROADCASTING = "broadcasting"
    CHAIN = "chain"
    LEAF_TWICE = "leaf-twice"
    CREATED = "new-axis"
    SECOND = "result-as-second-operand"
    RESULT_TWICE = "result-twice"
    STRETCHED = "stretched-axis"
    SAME = "tensor-and-itself"
    TWICE = "twice"
    SECOND_BACKWARD = "second-backward"
    """Not of a walk: a finding that only a second backward pass shows."""


@dataclass(frozen=True, order=True)
class Feature:
    """Something that a backward pass goes through."""

    op: str
    """Empty for a property of the graph, or for broadcasting in any op."""
    detail: str = ""
    """A `Use`, or the numbers of axes of the operands; empty for any use of the op."""


@dataclass(frozen=True)
class Root:
    """Findings that one cause explains."""

    feature: Feature | None
    """None for a single finding that no feature distinguishes from the correct probes."""
    probes: tuple[str, ...]
    """The most basic one first."""


_WIDER: Mapping[str, str] = {
    Use.CREATED: Use.BROADCASTING,
    Use.STRETCHED: Use.BROADCASTING,
    Use.LEAF_TWICE: Use.TWICE,
    Use.RESULT_TWICE: Use.TWICE,
}
"""What two different features of the graph have in common."""


# ----- Features -----


def features_of(probe: Probe, walk: Sequence[TraceStep]) -> frozenset[Feature]:
    """Return the features of a probe; of a probe without a walk, the ops that its text names.

    The walk is minigrad's, which computes some ops with others.
    """
    if probe.emulated:
        return frozenset({Feature(probe.emulated)})
    if not walk:
        return frozenset(Feature(op) for op in _ops_named(probe))
    return frozenset(_features(walk))


def has_own_rules(features: AbstractSet[Feature], engine: Engine) -> bool:
    """Whether an engine of single numbers has a rule of its own for all these features.

    NumPy composes other ops, such as a product of matrices, and broadcasts, so that the features of
    the arrays are not those of the numbers.
    """
    defined = {
        scope.rpartition(".")[2].strip("_").casefold()
        for text in engine.sources.values()
        for scope in _scopes(text).values()
    }

    def is_defined(op: str) -> bool:
        if op in OPERATIONS:
            return any(is_operation(name, op) for name in defined)
        return op in defined

    details = {feature.detail for feature in features}
    return details.isdisjoint((Use.CREATED, Use.STRETCHED)) and all(
        is_defined(feature.op) for feature in features if feature.op
    )


def shape_of(leaf: Leaf) -> tuple[int, ...]:
    """Return the shape of a leaf of a probe."""
    return np.shape(np.asarray(leaf.values)) if leaf.shape is None else leaf.shape


def _features(walk: Sequence[TraceStep]) -> Iterator[Feature]:
    steps = {step.index: step for step in walk}
    uses = Counter(parent for step in steps.values() for parent in step.parents)
    for step in steps.values():
        if uses[step.index] > 1:
            yield Feature("", Use.RESULT_TWICE if step.op else Use.LEAF_TWICE)
        if not step.op:
            continue
        yield Feature(step.op)
        operands = [steps.get(-1 if parent is None else parent) for parent in step.parents]
        for position, operand in enumerate(operands):
            if operand and operand.op:
                yield Feature("", Use.CHAIN)
                if position:
                    yield Feature("", Use.SECOND)
        if len(step.parents) == 2 and len(set(step.parents)) == 1:
            yield Feature(step.op, Use.SAME)
        for detail in _details(step, [operand for operand in operands if operand]):
            yield Feature(step.op, detail)
            if detail in (Use.CREATED, Use.STRETCHED):
                yield Feature("", detail)


def _details(step: TraceStep, operands: Sequence[TraceStep]) -> Iterator[str]:
    """Yield how an op is used: the ways in which it broadcasts, or else the numbers of axes."""
    shape = step.value.shape
    own = [operand.value.shape for operand in operands]
    if step.op == "matmul" or not all(_broadcasts(one, shape) for one in own):
        yield " ".join(str(len(one)) for one in own)
        return
    for one in own:
        if len(one) < len(shape):
            yield Use.CREATED
        if any(n == 1 < m for n, m in zip(one[::-1], shape[::-1], strict=False)):
            yield Use.STRETCHED


def _broadcasts(own: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(own, shape) == shape
    except ValueError:
        return False


_OPERATORS = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.MatMult: "matmul",
    ast.Pow: "pow",
}


_NOT_OF_THE_ENGINE = {"np", "rng"}
"""The names of NumPy and of its random generators in the shared probes."""


def _ops_named(probe: Probe) -> Iterator[str]:
    """Yield the operators and the methods in a probe's text, and in the helpers that it uses."""
    for node in _code(probe):
        if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _OPERATORS:
            yield _OPERATORS[type(node.op)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, *_, method = ast.unparse(node.func).split(".")
            if owner not in _NOT_OF_THE_ENGINE:
                yield method


def changes_leaves(probe: Probe) -> bool:
    """Whether a probe takes steps, or writes to an attribute or an entry of something."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr == "step")
        or (isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store))
        for node in _code(probe)
    )


def _code(probe: Probe) -> Iterator[ast.AST]:
    """Yield the syntax of a probe and of the helpers that it uses."""
    functions = {
        node.name: node
        for node in quiet_parse(probe.source).body
        if isinstance(node, ast.FunctionDef)
    }
    waiting = [probe.function]
    while waiting:
        function = functions.pop(waiting.pop(), None)
        for node in ast.walk(function) if function else ():
            if isinstance(node, ast.Name):
                waiting.append(node.id)
            yield node


# ----- Groups -----

_Part = tuple[Feature | None, list[str]]


def find_roots(
    findings: Mapping[str, int], right: Iterable[str], features: Mapping[str, AbstractSet[Feature]]
) -> list[Root]:
    """Return the findings, grouped by what explains them, the most basic group first.

    Parameters
    ----------
    findings : mapping of str to int
        The probes that show a bug, with the number of nodes in their graphs.
    right : iterable of str
        The probes that give the right result.
    features : mapping of str to set of Feature
        The features of all of these probes.
    """
    passed = Counter(feature for name in right for feature in features[name])
    rest, groups = dict(findings), dict[Feature | str, list[_Part]]()
    while rest:
        feature = _best_feature(rest, features, passed)
        members = [name for name in rest if feature is None or feature in features[name]]
        members = members[:1] if feature is None else members
        feature = _certain(feature, [features[name] for name in members], passed)
        groups.setdefault(_widened(feature) or members[0], []).append((feature, members))
        rest = {name: size for name, size in rest.items() if name not in members}
    roots = [_merged(parts, findings) for parts in groups.values()]
    return sorted(roots, key=lambda root: (findings[root.probes[0]], root.probes[0]))


def _best_feature(
    rest: Mapping[str, int],
    features: Mapping[str, AbstractSet[Feature]],
    passed: Mapping[Feature, int],
) -> Feature | None:
    failed = Counter(feature for name in rest for feature in features[name])

    def rank(feature: Feature) -> tuple[float, bool, bool, Feature]:
        score = ochiai(failed[feature], passed.get(feature, 0), len(rest))
        return round(score, 9), bool(feature.op), not feature.detail, feature

    # One finding does not show what several ops have in common.
    shared = [feature for feature, count in failed.items() if feature.op or count > 1]
    return max(shared, key=rank, default=None)


def _certain(
    feature: Feature | None, members: Sequence[AbstractSet[Feature]], passed: Mapping[Feature, int]
) -> Feature | None:
    """Return the feature, or only its op if another use of that op explains as much."""
    if feature is None or not (feature.op and feature.detail):
        return feature
    rivals = [
        other
        for other in frozenset.intersection(*map(frozenset, members))
        if other.op == feature.op and other.detail and other != feature
    ]
    explains = any(passed.get(other, 0) <= passed.get(feature, 0) for other in rivals)
    return Feature(feature.op) if explains else feature


def ochiai(failed: int, passed: int, failures: int) -> float:
    """Return Ochiai's coefficient: 1 if a feature is in all failing probes and in no other."""
    return failed / math.sqrt(failures * (failed + passed)) if failed else 0.0


def _merged(parts: Sequence[_Part], sizes: Mapping[str, int]) -> Root:
    """Return groups of the same op as one."""
    names = sorted((name for _, members in parts for name in members), key=lambda n: (sizes[n], n))
    feature = parts[0][0]
    return Root(feature if len(parts) == 1 else _widened(feature), tuple(names))


def _widened(feature: Feature | None) -> Feature | None:
    """Return the feature that makes one group of, for example, different uses of an op."""
    if feature is None or feature.op:
        return feature and Feature(feature.op)
    return Feature("", _WIDER.get(feature.detail, feature.detail))


def extended(root: Root, probes: AbstractSet[str], sizes: Mapping[str, int]) -> Root:
    """Return a root with more findings that it explains."""
    names = {*root.probes, *probes}
    feature = root.feature if len(names) == len(root.probes) else _widened(root.feature)
    return Root(feature, tuple(sorted(names, key=lambda name: (sizes[name], name))))


# ----- Places -----

_BACKWARD = re.compile(r"back|grad|vjp|pull|rule|adjoint", re.IGNORECASE)


def place_of(
    root: Root, right: Collection[str], called: Mapping[str, AbstractSet[str]], engine: Engine
) -> SiteReport | None:
    """Return the function of the engine that the findings call and other probes call least.

    `called` has the functions that each probe calls, as `harness.runs.recorder` names them. If some
    have the name of the op, only these count. None if every probe that is right calls all of them,
    and for what only a second backward pass shows, since the first one calls the same functions.
    """
    if root.feature and root.feature.detail == Use.SECOND_BACKWARD:
        return None
    own = [called[name] for name in root.probes if name in called]
    others = [called[name] for name in right if name in called]
    failed = Counter(function for functions in own for function in functions)
    passed = Counter(function for functions in others for function in functions)
    sites = {function: _site(function, engine) for function in failed}
    for function in [f for f, site in sites.items() if site.scope.endswith("__del__")]:
        del failed[function]  # Python calls it whenever an object is freed
    named = [function for function in failed if _is_of(sites[function], root)]

    def rank(function: str) -> tuple[int, int, bool, int, str]:
        site = sites[function]
        is_backward = bool(_BACKWARD.search(site.scope.rpartition(".")[2]))
        return failed[function], -passed[function], is_backward, site.line, function

    best = max(named or failed, key=rank, default=None)
    if best is None or not (named or passed[best] < len(others)):
        return None
    return sites[best]


def _is_of(site: SiteReport, root: Root) -> bool:
    """Whether a function's scope has the name of a root's op."""
    op, names = root.feature.op if root.feature else "", site.scope.split(".")
    if op in OPERATIONS:
        return any(is_operation(name, op) for name in names)
    return bool(op) and any(name.strip("_").casefold() == op for name in names)


def _site(function: str, engine: Engine) -> SiteReport:
    path, line, _ = function.rsplit(":", 2)
    file = Path(path).relative_to(engine.root).as_posix()
    scopes = _scopes(engine.sources[file])
    return SiteReport(file, int(line), scopes.get(int(line), ""))


def runs_site(site: SiteReport, called: Collection[str], engine: Engine) -> bool:
    """Whether the innermost function around a site is called.

    A site outside functions, such as a table of rules, always runs.
    """
    around = _starts(engine.sources[site.file]).get(site.line)
    lines = {
        int(function.rsplit(":", 2)[1])
        for function in called
        if (engine.root / site.file).as_posix() == Path(function.rsplit(":", 2)[0]).as_posix()
    }
    return around is None or around in lines


@lru_cache(maxsize=64)
def _starts(source: str) -> dict[int, int]:
    """Return the first line of the innermost function around each line that is in one."""
    starts: dict[int, int] = {}
    for node in ast.walk(quiet_parse(source)):  # breadth first: outer functions come first
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                starts[line] = first
    return starts


@lru_cache(maxsize=64)
def _scopes(source: str) -> dict[int, str]:
    """Return the dotted name of the function, or of that around a lambda, by its first line."""
    return {line: ".".join(scope) for scope, line in _functions(quiet_parse(source), ())}


def _functions(node: ast.AST, scope: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    for child in ast.iter_child_nodes(node):
        inner = scope
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = (*scope, child.name)
            first = min([child.lineno, *(item.lineno for item in child.decorator_list)])
            yield inner, first
        elif isinstance(child, ast.Lambda):
            yield scope, child.lineno
        yield from _functions(child, inner)
