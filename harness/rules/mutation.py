"""Applying a patch at each of its sites in a rule, one at a time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache

from harness.core.message import message
from harness.patch.apply import Patched, apply_at_each
from harness.patch.notation import Patch
from harness.patch.portable import loosen
from harness.patch.reader import read_source
from harness.patch.scope import Scope
from harness.patch.side import quiet_parse
from harness.patch.tree import Node
from harness.rules.rule import Rule, RuleFunction

SCOPES = ("rule.backward", "rule.forward", "rule")
"""The scopes of an operator's hunks: the functions that compute the gradient, those that save what
it needs, or both."""


def check_scopes(patch: Patch) -> None:
    """Raise HunkError for a hunk that is not confined to the functions of a rule."""
    for hunk in patch.hunks:
        if hunk.scope.text not in SCOPES:
            problem = message("`{scope}` is not the scope of an operator", scope=hunk.scope.text)
            listed = ", ".join(f"`@@ {scope} @@`" for scope in SCOPES)
            raise hunk.error(problem, message("write one of {scopes}", scopes=listed))


def mutations(patch: Patch, rule: Rule, text: str) -> Iterator[tuple[RuleFunction, int, Patched]]:
    """Yield each change that a patch can make to a rule: its function, its line, the new file.

    `text` is the text of the rule's file. `$cotangent` in the patch means the rule's own cotangent.
    A change that gives the same values to the same names, as from `a, b = zero, zero` to
    `b, a = zero, zero`, is left out. Raises what `apply_at_each` raises.
    """
    nodes = _functions_of(text)
    for function in rule.functions:
        root = nodes.get(function.start)
        if root is None:
            continue
        own = _own(patch, function.cotangents or (_NO_COTANGENT,))

        def roots(scope: Scope, root: Node = root, function: RuleFunction = function) -> list[Node]:
            return [root] if scope.text in ("rule", f"rule.{function.side}") else []

        for patched in apply_at_each(own, rule.file, text, roots):
            pairs = _assigned(patched.sites[0].before)
            if pairs is None or pairs != _assigned(patched.sites[0].after):
                yield function, patched.line, patched


def _assigned(code: str) -> list[tuple[str, str]] | None:
    """Return the targets of a parallel assignment, each with its value, in order; else None.

    Also None if a value is a call: `a, b = saved.pop(), saved.pop()` assigns two values.
    """
    with suppress(SyntaxError):
        tree = quiet_parse(code.strip())
        if any(isinstance(node, ast.Call) for node in ast.walk(tree)):
            return None
        match tree.body:
            case [ast.Assign([ast.Tuple(names)], ast.Tuple(values))] if len(names) == len(values):
                pairs = zip(map(ast.unparse, names), map(ast.unparse, values), strict=True)
                return sorted(pairs)
    return None


@lru_cache(maxsize=16)
def _functions_of(text: str) -> dict[int, Node]:
    """Return the functions of a file, by their offsets."""
    return {node.start: node for node in read_source(text).root.walk() if node.kind in _FUNCTIONS}


@lru_cache(maxsize=1024)
def _own(patch: Patch, cotangents: tuple[str, ...]) -> Patch:
    """Return a patch in which `$cotangent` means one of these expressions."""
    return loosen(patch, {}, cotangents=cotangents)


_FUNCTIONS = ("FunctionDef", "Lambda")
_NO_COTANGENT = "__no_cotangent__"
"""A name that no code contains: a function without a cotangent has no site of `$cotangent`."""
