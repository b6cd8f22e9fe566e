"""Which probes can show a change of an engine: those that call a function which differs."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.engines.engine import Engine
from harness.experiment.baseline import Baseline
from harness.pages.probe import Probe
from harness.patch.side import quiet_parse

Sources = Mapping[str, str]
"""The text of an engine's files."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def reaching(
    clean: Engine, others: Sequence[Sources], probes: Sequence[Probe], baseline: Baseline
) -> list[Probe]:
    """Return the probes that call a function of the clean engine that other sources change.

    All of them, if something outside functions differs, which the import executes.
    """
    changed: set[str] = set()
    for sources in others:
        functions = changed_functions(clean, sources)
        if functions is None:
            return list(probes)
        changed |= functions
    pairs = ((probe, loss) for probe in probes for loss in probe.losses)
    called = zip(pairs, baseline.coverage(clean, probes), strict=True)
    reached = {probe.name for (probe, _), names in called if names is None or changed & names}
    return [probe for probe in probes if probe.name in reached]


def changed_functions(clean: Engine, sources: Sources) -> set[str] | None:
    """Return the functions of an engine that differ in these sources, as coverage names them.

    None if something else differs. New functions do not count: an old one has to call them.
    """
    changed: set[str] = set()
    for file, text in clean.sources.items():
        if text == sources.get(file):
            continue
        if file not in sources:
            return None
        before, rest = _parts(text)
        after, other_rest = _parts(sources[file])
        if rest != other_rest:
            return None
        for name, nodes in before.items():
            if list(map(ast.dump, nodes)) != list(map(ast.dump, after.get(name, []))):
                changed |= {_covered_name(clean.root / file, node) for node in nodes}
    return changed


def _parts(text: str) -> tuple[dict[str, list[Function]], str]:
    """Return a file's functions by their dotted names, and everything else as one text."""
    tree = quiet_parse(text)
    functions: dict[str, list[Function]] = defaultdict(list)
    for name, node in _take_functions(tree, ""):
        functions[name].append(node)
    return functions, ast.dump(tree)


def _take_functions(
    scope: ast.Module | ast.ClassDef, prefix: str
) -> Iterator[tuple[str, Function]]:
    """Remove the functions from a module or a class, and yield them; those inside them stay."""
    rest = []
    for node in scope.body:
        if isinstance(node, Function):
            yield f"{prefix}{node.name}", node
            continue
        rest.append(node)
        if isinstance(node, ast.ClassDef):
            yield from _take_functions(node, f"{prefix}{node.name}.")
    scope.body = rest


def _covered_name(path: Path, node: Function) -> str:
    line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return f"{path}:{line}:{node.name}"
