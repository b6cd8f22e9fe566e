"""The changes of a hunk of statements: its two sides aligned by the page's lines.

A context line belongs to both sides, so two nodes that share a line are the same statement, clause
or decorator. Nodes that share none are removed or added; a compound statement that shares only some
lines is aligned header by header and block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.core.errors import HunkError
from harness.patch.side import Side
from harness.patch.tree import DEFINITIONS, Node

Report = Callable[[str, str, int], HunkError]


@dataclass(frozen=True)
class Swap:
    """Siblings of the before side replaced by siblings of the after side.

    One of the two may be empty; `previous` and `following` are the siblings around them on the
    before side.
    """

    removed: tuple[Node, ...]
    added: tuple[Node, ...]
    previous: Node | None
    following: Node | None


@dataclass(frozen=True)
class NewHeader:
    """A clause with a new header and the same body."""

    before: Node
    after: Node


Change = Swap | NewHeader


def plan(report: Report, before: Side, after: Side) -> tuple[Change, ...]:
    """Return the changes from one side to the other; also marks the parts that the context omits.

    Raises an error made by `report` if a context line would have to move.
    """
    planner = _Planner(report, before, after)
    planner.mark_lenient()
    planner.align(before.body, after.body)
    return tuple(planner.changes)


class _Planner:
    def __init__(self, report: Report, before: Side, after: Side) -> None:
        self.report, self.before, self.after = report, before, after
        self.context = frozenset(before.rows) & frozenset(after.rows)
        self.changes: list[Change] = []

    def mark_lenient(self) -> None:
        """Let definitions in the context omit decorators, annotations and docstring."""
        for clause in self.before.source.root.walk():
            if clause.kind not in DEFINITIONS:
                continue
            if self.before.rows_of(clause.begin, clause.header_end) <= self.context:
                open_parts = frozenset({"decorators", "returns", "type_parameters", "docstring"})
                clause.lenient = open_parts
                parameters = clause.parts.get("params")
                for node in parameters.block("params") if isinstance(parameters, Node) else ():
                    node.lenient = frozenset({"annotation"})
            elif self.before.rows_of(clause.begin, clause.end) & self.context:
                clause.lenient = frozenset({"docstring"})

    def align(self, before: Sequence[Node], after: Sequence[Node], end: Node | None = None) -> None:
        """Pair two lists of siblings by their shared lines, in order."""
        removed: list[Node] = []
        previous: Node | None = None
        taken = 0
        for node in before:
            rows = self._rows(self.before, node)
            partner = next(
                (j for j in range(taken, len(after)) if rows & self._rows(self.after, after[j])),
                None,
            )
            if partner is None:
                self._refuse_context(self.before, node)
                removed.append(node)
                continue
            self._swap(removed, after[taken:partner], previous, node)
            self._pair(node, after[partner])
            removed, previous, taken = [], node, partner + 1
        self._swap(removed, after[taken:], previous, end)

    def _pair(self, before: Node, after: Node) -> None:
        if self._rows(self.before, before) == self._rows(self.after, after):
            return
        if before.kind == after.kind == "Compound":
            self.align(before.block("clauses"), after.block("clauses"))
        elif before.slot == after.slot == "clauses":
            self._pair_clauses(before, after)
        elif "Compound" in (before.kind, after.kind):
            raise self._moved(min(self._rows(self.before, before) & self.context))
        else:
            self.changes.append(Swap((before,), (after,), None, None))

    def _pair_clauses(self, before: Node, after: Node) -> None:
        self.align(before.block("decorators"), after.block("decorators"), end=before)
        header = self.before.rows_of(before.start, before.header_end)
        if header != self.after.rows_of(after.start, after.header_end):
            self.changes.append(NewHeader(before, after))
        self.align(before.block("body"), after.block("body"))

    def _swap(
        self,
        removed: Sequence[Node],
        added: Sequence[Node],
        previous: Node | None,
        following: Node | None,
    ) -> None:
        for node in added:
            self._refuse_context(self.after, node)
        if removed or added:
            self.changes.append(Swap(tuple(removed), tuple(added), previous, following))

    def _refuse_context(self, side: Side, node: Node) -> None:
        rows = self._rows(side, node) & self.context
        if rows:
            raise self._moved(min(rows))

    def _moved(self, row: int) -> HunkError:
        problem = "this context line would have to move: the statement around it is restructured"
        return self.report(problem, "write such lines as `-` and `+`, not as context", row)

    @staticmethod
    def _rows(side: Side, node: Node) -> frozenset[int]:
        return side.rows_of(node.begin, node.end)
