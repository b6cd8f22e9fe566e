"""The numbers that a probe's own text adds to the computation besides its leaves."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from functools import lru_cache

from harness.pages.probe import Probe


def brings_numbers(probe: Probe) -> bool:
    """Whether it uses anything besides its leaves, its own variables, builtins and plain numbers.

    Then an array or a layer may have another dtype than the leaves, and promote the output.
    """
    names = [node for node in _walk(probe) if isinstance(node, ast.Name)]
    own = {leaf.name for leaf in probe.leaves} | set(dir(builtins))
    own |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return any(node.id not in own for node in names)


def brings_non_finite(probe: Probe) -> bool:
    """Whether its text contains a NaN or an infinity."""
    for node in _walk(probe):
        match node:
            case ast.Attribute(attr=word) | ast.Name(id=word) | ast.Constant(value=str(word)):
                if word.strip("+-").lower() in ("nan", "inf"):
                    return True
    return False


def _walk(probe: Probe) -> Sequence[ast.AST]:
    """Return everything in the probe's body, except its docstring and its arguments."""
    return _bodies(probe.source).get(probe.function, ())


@lru_cache(maxsize=256)
def _bodies(source: str) -> dict[str, Sequence[ast.AST]]:
    """Return the nodes of each function's body, cached: it is needed for each probe and run."""
    return {
        function.name: [node for statement in function.body[1:] for node in ast.walk(statement)]
        for function in ast.parse(source).body
        if isinstance(function, ast.FunctionDef)
    }
