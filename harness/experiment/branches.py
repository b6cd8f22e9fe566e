"""Whether a patch changes only some of the branches that store a gradient.

Many engines store the first gradient in one branch, and add later ones in another. A patch may
match only one of them: then the break shows only for some gradients.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.core.message import Message, message
from harness.core.site import Site, line_starts
from harness.engines.engine import Engine
from harness.patch.side import quiet_parse

Span = tuple[int, int]


@dataclass(frozen=True)
class Branch:
    """A branch of a choice: its statements, and where they are."""

    statements: Sequence[ast.stmt]

    @property
    def targets(self) -> dict[str, str]:
        """What the branch stores into, and what a condition about it names."""
        targets = {}
        for node in self.statements:
            stored = node.targets[:1] if isinstance(node, ast.Assign) else []
            stored += [node.target] if isinstance(node, ast.AugAssign) else []
            for target in stored:
                table = target.value if isinstance(target, ast.Subscript) else target
                targets[ast.unparse(target)] = ast.unparse(table)
        return targets

    @property
    def code(self) -> str:
        """The code without layout."""
        return "\n".join(map(ast.unparse, self.statements))


def partial_change(clean: Engine, sites: Sequence[Site]) -> Message | None:
    """Return how many of the branches that store a gradient are changed, if only some are."""
    for site in sites:
        text = clean.sources[site.file]
        starts = line_starts(text.encode())
        spans = [other.origin for other in sites if other.file == site.file]
        for test, branches in _choices(quiet_parse(text)):
            changed = [any(_overlap(_span(b, starts), span) for span in spans) for b in branches]
            target = _stored(test, branches)
            if target and any(changed) and not all(changed) and not _repeats(site, branches):
                return message(
                    "it changes {changed} of {count} branches that store `{target}` in {scope}",
                    changed=sum(changed),
                    count=len(branches),
                    target=target,
                    scope=site.scope or message("the module"),
                )
    return None


def _choices(tree: ast.Module) -> Iterator[tuple[ast.expr, list[Branch]]]:
    """Yield each condition with its branches; what follows an early return is a branch."""
    for node in ast.walk(tree):
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(block, list):
                for index, statement in enumerate(block):
                    if isinstance(statement, ast.If):
                        leaves = isinstance(statement.body[-1], ast.Return | ast.Continue)
                        rest = statement.orelse or (block[index + 1 :] if leaves else [])
                        yield statement.test, [Branch(statement.body), Branch(rest)]


def _stored(test: ast.expr, branches: Sequence[Branch]) -> str | None:
    """Return what all branches store into, if the condition is about it."""
    named = {ast.unparse(node) for node in ast.walk(test) if isinstance(node, ast.expr)}
    for target, table in branches[0].targets.items():
        if {target, table} & named and all(target in branch.targets for branch in branches):
            return target
    return None


def _repeats(site: Site, branches: Sequence[Branch]) -> bool:
    """Whether the changed branch now does what another branch does: the patch is complete."""
    try:
        after = Branch(quiet_parse(site.after).body).code
    except SyntaxError:
        return False
    return bool(after) and any(after in branch.code.split("\n") for branch in branches)


def _span(branch: Branch, starts: Sequence[int]) -> Span:
    if not branch.statements:
        return -1, -1
    first, last = branch.statements[0], branch.statements[-1]
    end_line, end_column = last.end_lineno or last.lineno, last.end_col_offset or 0
    return starts[first.lineno - 1] + first.col_offset, starts[end_line - 1] + end_column


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]
