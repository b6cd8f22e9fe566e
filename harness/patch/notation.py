"""Reading the text of a ``diff`` block: hunks, their scopes, and the two sides as trees.

Errors that do not depend on an engine are reported here, with the page's line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from harness.core.errors import HunkError, Sentence
from harness.core.message import message
from harness.patch.scope import Scope, parse_scope
from harness.patch.side import GAP_LINE, Side, UnreadableSide, indent_of, read_side
from harness.patch.tree import DEFINITIONS, Node

_HEADER = re.compile(r"@@(?P<scope>.*?)(?:@@(?P<rest>.*))?")


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


@dataclass(frozen=True)
class Hunk:
    """One before and after; `changes` is empty for a hunk that replaces expressions."""

    path: str
    line: int
    scope: Scope
    before: Side
    after: Side
    changes: tuple[Change, ...] = field(repr=False)

    @property
    def is_expression(self) -> bool:
        """Whether both sides are a single expression, which matches anywhere."""
        return self.before.expression is not None and self.after.expression is not None

    @property
    def pattern(self) -> tuple[Node, ...]:
        """The statements to search for, without a redundant `...` at either end."""
        body = list(self.before.body)
        while body and body[0].hole == "...":
            del body[0]
        while body and body[-1].hole == "...":
            del body[-1]
        return tuple(body)

    def error(self, problem: Sentence, remedy: Sentence, line: int | None = None) -> HunkError:
        """An error on this hunk's page."""
        return HunkError(self.path, line or self.line, problem, remedy)


@dataclass(frozen=True)
class Patch:
    """All hunks of a page, and the number of sites that it states."""

    hunks: tuple[Hunk, ...]
    sites: int | None = None


def parse_patch(text: str, *, path: str, line: int) -> Patch:
    """Read the body of a ``diff`` block that begins at line `line` of the page `path`.

    Raises `HunkError` for invalid notation.
    """
    rows = [(line + i, row.rstrip("\r")) for i, row in enumerate(text.split("\n"))]
    hunks: list[tuple[int, Scope, list[tuple[int, str]]]] = []
    for number, row in rows:
        if row.startswith("@@"):
            hunks.append((number, _scope(row, path, number), []))
        elif row.strip():
            if not hunks:
                problem = message("`{row}` comes before the first `@@` header", row=row.strip())
                remedy = "begin every hunk with `@@ scope @@` (`@@ @@` for the whole module)"
                raise HunkError(path, number, problem, remedy)
            hunks[-1][2].append((number, row))
    if not hunks:
        raise HunkError(path, line, "the diff block is empty", "write a hunk below `@@ scope @@`")
    return Patch(tuple(_hunk(path, *hunk) for hunk in hunks))


def combine(patches: Iterable[Patch], sites: int | None = None) -> Patch:
    """Return the hunks of several blocks as one patch."""
    return Patch(tuple(hunk for patch in patches for hunk in patch.hunks), sites)


def reverse(patch: Patch) -> Patch:
    """Return the patch that searches for what another one writes, and writes what it replaced.

    Raises `HunkError` if that is not a patch, for example since the other one only deletes lines.
    """
    return Patch(
        tuple(
            checked(hunk.path, hunk.line, hunk.scope, hunk.after, hunk.before)
            for hunk in patch.hunks
        )
    )


def _scope(row: str, path: str, number: int) -> Scope:
    header = _HEADER.fullmatch(row)
    assert header is not None
    text, rest = header["scope"].strip(), (header["rest"] or "").strip()
    try:
        if re.match(r"-\d", text):
            raise ValueError("line numbers are not allowed")
        if rest:
            raise ValueError(f"`{rest}` follows the second `@@`")
        return parse_scope(text)
    except ValueError as problem:
        remedy = (
            "write `@@ add.vjp @@`, `@@ *.backward @@`, `@@ ops.py::add @@`, several with `|`, "
            "or `@@ @@` for the whole module"
        )
        raise HunkError(
            path, number, message("the scope of this hunk: {problem}", problem=problem), remedy
        ) from None


def _hunk(path: str, number: int, scope: Scope, rows: Sequence[tuple[int, str]]) -> Hunk:
    before: list[tuple[int, str]] = []
    after: list[tuple[int, str]] = []
    for line, row in rows:
        prefix, code = _split(path, line, row)
        if prefix in " -":
            before.append((line, code))
        if prefix in " +":
            after.append((line, code))
    if before == after:
        problem = "this hunk has neither a `-` nor a `+` line"
        raise HunkError(path, number, problem, "begin the changed lines with `-` and `+`")
    try:
        margin = min(_margin(side) for side in (before, after) if side)
        sides = read_side(before, margin, "-"), read_side(after, margin, "+")
    except UnreadableSide as error:
        raise HunkError(path, error.line, error.problem, error.remedy) from None
    return checked(path, number, scope, *sides)


def _split(path: str, line: int, row: str) -> tuple[str, str]:
    """A row's prefix and code; the code of a gap is an indented ``...``."""
    if GAP_LINE.fullmatch(row):
        return " ", row.removeprefix(" ")
    prefix, code = row[0], row[1:]
    if prefix not in " -+":
        problem = message("`{row}` begins with neither a space, `-`, `+` nor `@@`", row=row.strip())
        remedy = "begin context lines with a space, removed ones with `-`, added ones with `+`"
        raise HunkError(path, line, problem, remedy)
    if prefix in "-+" and GAP_LINE.fullmatch(code):
        problem = message("`{prefix}...`: `...` stands for unchanged statements", prefix=prefix)
        remedy = "begin this line with a space; write out the statements to remove or add"
        raise HunkError(path, line, problem, remedy)
    return prefix, code


def _margin(side: Sequence[tuple[int, str]]) -> int:
    """The indentation of a side's first statement."""
    codes = [code for _, code in side if not GAP_LINE.fullmatch(code)]
    return indent_of(codes[0]) if codes else 0


def checked(path: str, number: int, scope: Scope, before: Side, after: Side) -> Hunk:
    """Return a hunk with its changes. Raises `HunkError` if its sides do not fit together."""
    hunk = Hunk(path, number, scope, before, after, ())
    if not hunk.pattern:
        problem = "nothing to search for: this hunk only adds lines"
        remedy = "add a context line, which begins with a space, beside the new lines"
        raise hunk.error(problem, remedy)
    _check_holes(hunk)
    if hunk.is_expression:
        return hunk
    hunk = replace(hunk, changes=_ChangePlanner(hunk).plan())
    _check_additions(hunk)
    return hunk


def _check_additions(hunk: Hunk) -> None:
    """Raise for lines added beside only a `...` at the end of the hunk."""
    for change in hunk.changes:
        if isinstance(change, Swap) and not change.removed:
            beside = [node for node in (change.previous, change.following) if node]
            top = hunk.before.source.root
            if not any(node in hunk.pattern or node.parent is not top for node in beside):
                problem = "the position of these lines is ambiguous"
                remedy = "write a context line directly above or below them"
                raise hunk.error(problem, remedy, hunk.after.line_of(change.added[0]))


def _check_holes(hunk: Hunk) -> None:
    bound = {hole.removeprefix("...") for hole in hunk.before.holes}
    both = {hole for hole in bound if {hole, f"...{hole}"} <= set(hunk.before.holes)}
    for name in sorted(both):
        problem = message("`${name}` and `$...{name}` cannot both be used", name=name)
        raise hunk.error(problem, "give the run another name")
    for hole, node in hunk.after.holes.items():
        if hole not in hunk.before.holes:
            bound_names = [name for name in hunk.before.holes if not name.startswith("=")]
            listed = ", ".join(f"`${name}`" for name in bound_names) or "none"
            problem = message(
                "`${hole}` is used on the + side, but the - side does not bind it", hole=hole
            )
            remedy = message(
                "use a name that the - side or the context binds ({listed})", listed=listed
            )
            raise hunk.error(problem, remedy, hunk.after.line_of(node))


# ----- the changes of a hunk of statements -----


class _ChangePlanner:
    """Aligns the two sides of a hunk of statements by the page's lines.

    A context line belongs to both sides, so two nodes that share a line are the same statement,
    clause or decorator. Nodes that share none are removed or added; a compound statement that
    shares only some lines is aligned header by header and block by block.
    """

    def __init__(self, hunk: Hunk) -> None:
        self.hunk, self.before, self.after = hunk, hunk.before, hunk.after
        self.context = frozenset(self.before.rows) & frozenset(self.after.rows)
        self.changes: list[Change] = []

    def plan(self) -> tuple[Change, ...]:
        """Return the changes from one side to the other; marks what the context may omit.

        Raises `HunkError` if a context line would have to move.
        """
        self.mark_lenient()
        self.align(self.before.body, self.after.body)
        return tuple(self.changes)

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
            elif self.before.rows_of_node(clause) & self.context:
                clause.lenient = frozenset({"docstring"})

    def align(self, before: Sequence[Node], after: Sequence[Node], end: Node | None = None) -> None:
        """Pair two lists of siblings by their shared lines, in order."""
        removed: list[Node] = []
        previous: Node | None = None
        taken = 0
        for node in before:
            rows = self.before.rows_of_node(node)
            partner = next(
                (j for j in range(taken, len(after)) if rows & self.after.rows_of_node(after[j])),
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
        if self.before.rows_of_node(before) == self.after.rows_of_node(after):
            return
        if before.kind == after.kind == "Compound":
            self.align(before.block("clauses"), after.block("clauses"))
        elif before.slot == after.slot == "clauses":
            self._pair_clauses(before, after)
        elif "Compound" in (before.kind, after.kind):
            raise self._moved(min(self.before.rows_of_node(before) & self.context))
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
        rows = side.rows_of_node(node) & self.context
        if rows:
            raise self._moved(min(rows))

    def _moved(self, row: int) -> HunkError:
        problem = "this context line would have to move: the statement around it is restructured"
        return self.hunk.error(problem, "write such lines as `-` and `+`, not as context", row)
