"""From changed statements to changed bytes: lines, separators, one-line suites, empty blocks.

An edit replaces bytes of the original text; a site is its place in the patched text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.site import Site, SiteKind
from harness.patch.match import PatternMatch, Siblings
from harness.patch.notation import Hunk, NewHeader, Swap
from harness.patch.render import Template, replaced_span
from harness.patch.tree import Node, Source, scope_of


@dataclass(frozen=True, eq=False)
class Edit:
    """A replacement of bytes in one file."""

    hunk: Hunk
    start: int
    end: int
    text: str
    kind: SiteKind
    around: Node
    """A node in the definition that contains the site."""
    anchor: Node | None = None
    """The statement beside a deletion that is executed when the deleted code was."""
    anchor_before: bool = True
    """Whether the anchor came before the deleted code."""
    beside_is_before: bool = False
    """Whether the added code follows `around`."""


@dataclass(frozen=True, eq=False)
class Position(Siblings):
    """The place of a change: the siblings that are replaced."""

    after_previous: bool = False
    """If there are none: whether the new code belongs to the sibling before this place."""

    @property
    def touched(self) -> tuple[Node, ...]:
        """The siblings that are replaced, or else the one that the new code is written beside."""
        beside = self.start - 1 if self.after_previous else self.start
        return self.taken or self.nodes[beside : beside + 1]


def deleted_nodes(hunk: Hunk, match: PatternMatch) -> list[Node]:
    """Return the source's nodes that a match removes without a replacement."""
    return [
        node
        for change in hunk.changes
        if isinstance(change, Swap) and not change.added
        for node in _position(change, match).taken
    ]


def edits(hunk: Hunk, match: PatternMatch, source: Source, deleted: frozenset[Node]) -> list[Edit]:
    """Return the edits of one match; `deleted` holds the deleted nodes of all matches."""
    template = Template(hunk.after, match.binding, source)
    if hunk.is_expression:
        return [_expression(hunk, match.nodes[0], template)]
    changes = []
    for change in hunk.changes:
        if isinstance(change, NewHeader):
            changes.append(_header(hunk, change, match, template))
        else:
            writer = _Writer(hunk, source, template, _position(change, match), deleted)
            changes.append(writer.edit(change.added))
    return changes


def _expression(hunk: Hunk, node: Node, template: Template) -> Edit:
    start, end = replaced_span(node)
    text, data = template.expression(node), template.source.data
    if _is_word(data[start - 1 : start]) and _is_word(text[:1].encode()):
        text = f" {text}"
    if _is_word(data[end : end + 1]) and _is_word(text[-1:].encode()):
        text = f"{text} "
    return Edit(hunk, start, end, text, "expression", node)


def _is_word(character: bytes) -> bool:
    return character.isalnum() or character == b"_" or character > b"\x7f"


def _header(hunk: Hunk, change: NewHeader, match: PatternMatch, template: Template) -> Edit:
    clause = match.binding[change.before]
    assert isinstance(clause, Node)
    indent = template.source.indent_at(clause.start)
    text = template.text(change.after.start, change.after.header_end, indent)
    return Edit(hunk, clause.start, clause.header_end, text, "header", clause)


def _position(change: Swap, match: PatternMatch) -> Position:
    """Return the position of a change in the source."""
    if change.removed:
        nodes = [match.binding[node] for node in change.removed]
        first, last = nodes[0], nodes[-1]
        assert isinstance(first, Node)
        assert isinstance(last, Node)
        return Position(first.siblings(), first.index, last.index + 1)
    before = match.binding.get(change.previous) if change.previous else None
    behind = match.binding.get(change.following) if change.following else None
    if isinstance(before, Node):
        return Position(before.siblings(), before.index + 1, before.index + 1, after_previous=True)
    if isinstance(behind, Node):
        if change.added[0].slot == "decorators" and behind.slot == "clauses":
            return Position((behind,), 0, 0)
        return Position(behind.siblings(), behind.index, behind.index)
    gap = before or behind
    assert isinstance(gap, Siblings)
    place = gap.end if before else gap.start
    return Position(gap.nodes, place, place, after_previous=place > 0)


@dataclass(frozen=True)
class _Writer:
    """Turns one change at one position into an edit."""

    hunk: Hunk
    source: Source
    template: Template
    position: Position
    deleted: frozenset[Node]

    def edit(self, added: Sequence[Node]) -> Edit:
        if not added:
            return self._deletion()
        small = all(node.kind != "Compound" for node in added)
        shared = any(len(node.mates) > 1 or node.suite for node in self.position.touched)
        if shared and added[0].slot == "body":
            return self._inline(added) if small else self._broken_line(added)
        return self._lines(added)

    def _edit(self, start: int, end: int, text: str) -> Edit:
        kind: SiteKind = "header" if self.position.touched[0].slot == "decorators" else "statements"
        behind = not self.position.taken and self.position.after_previous
        around = self.position.touched[0]
        return Edit(self.hunk, start, end, text, kind, around, beside_is_before=behind)

    # ----- additions and replacements -----

    def _lines(self, added: Sequence[Node]) -> Edit:
        """Write statements, clauses or decorators on lines of their own."""
        node = self.position.touched[0]
        indent = self.source.indent_at(node.begin)
        text = self._block(added, indent)
        if self.position.taken:
            return self._edit(self.position.taken[0].begin, self.position.taken[-1].end, text)
        if self.position.after_previous:
            end = self.source.line_end(node.end)
            return self._edit(end, end, self.source.newline + indent + text)
        start = node.begin if added[0].slot == "body" else node.start
        return self._edit(start, start, text + self.source.newline + indent)

    def _inline(self, added: Sequence[Node]) -> Edit:
        """Write simple statements on a shared line, or after a colon."""
        text = "; ".join(self.template.text(node.start, node.end, "") for node in added)
        if self.position.taken:
            return self._edit(self.position.taken[0].start, self.position.taken[-1].end, text)
        node = self.position.touched[0]
        if self.position.after_previous:
            return self._edit(node.end, node.end, f"; {text}")
        return self._edit(node.start, node.start, f"{text}; ")

    def _broken_line(self, added: Sequence[Node]) -> Edit:
        """Write compound statements at a shared line, which is split into several."""
        position, touched = self.position, self.position.touched
        left = [node for node in touched[0].mates if node.index < position.start]
        right = [node for node in touched[-1].mates if node.index >= position.end]
        start, end = touched[0].mates[0].start, touched[-1].mates[-1].end
        indent, opening = self.source.indent_at(start), ""
        clause = touched[0].parent
        if touched[0].suite and clause is not None:
            indent, start = (
                self.source.indent_at(clause.start) + self.source.unit,
                clause.header_end,
            )
            opening = self.source.newline + indent
        pieces = [self.source.slice(part[0].start, part[-1].end) for part in (left, right) if part]
        pieces.insert(bool(left), self._block(added, indent))
        return self._edit(start, end, opening + (self.source.newline + indent).join(pieces))

    def _block(self, added: Sequence[Node], indent: str) -> str:
        return self.template.text(added[0].begin, added[-1].end, indent)

    # ----- deletions -----

    def _deletion(self) -> Edit:
        removed = self.position.taken
        first, last = removed[0], removed[-1]
        if self._becomes_pass(first):
            return Edit(self.hunk, first.begin, last.end, "pass", "deletion", first)
        anchor, before = self._anchor()
        start, end = self._deleted_span(first, last)
        kind: SiteKind = "header" if first.slot == "decorators" else "deletion"
        return Edit(self.hunk, start, end, "", kind, first, anchor, before)

    def _becomes_pass(self, node: Node) -> bool:
        """Whether a deletion that begins here leaves its block empty."""
        nested = node.parent is not None and node.parent.kind != "Module"
        emptied = all(sibling in self.deleted for sibling in node.siblings())
        return node.slot == "body" and node.index == 0 and nested and emptied

    def _anchor(self) -> tuple[Node | None, bool]:
        first = self.position.taken[0]
        if first.slot != "body":
            return first.parent, False
        nodes = self.position.nodes
        behind = [node for node in nodes[self.position.end :] if node not in self.deleted]
        before = [node for node in nodes[: self.position.start] if node not in self.deleted]
        return (behind[0], False) if behind else (before[-1] if before else None, True)

    def _deleted_span(self, first: Node, last: Node) -> tuple[int, int]:
        """Return the span to delete: whole lines if nothing else remains, or a separator too."""
        left = [node for node in first.mates if node.index < first.index]
        right = [node for node in last.mates if node.index > last.index]
        if any(node not in self.deleted or self._becomes_pass(node) for node in left):
            return left[-1].end, last.end
        line_goes = not first.suite and all(node in self.deleted for node in right)
        start = self.source.line_start(first.begin) if line_goes and not left else first.begin
        return start, right[0].start if right else self.source.next_line(last.end)


# ----- The patched text -----


def splice(changes: Sequence[Edit], source: Source) -> str:
    """Return the patched text of a file; the edits are in order and do not overlap."""
    pieces, at = [], 0
    for edit in changes:
        pieces += [source.data[at : edit.start], edit.text.encode()]
        at = edit.end
    return b"".join([*pieces, source.data[at:]]).decode()


def _moved(changes: Sequence[Edit], offset: int) -> int:
    """Return the offset in the patched text of an original offset that no edit replaces."""
    before = [edit for edit in changes if edit.end <= offset and edit.start < offset]
    return offset + sum(len(edit.text.encode()) - (edit.end - edit.start) for edit in before)


def sites_of(changes: Sequence[Edit], file: str, source: Source, patched: str) -> list[Site]:
    """Return the places in the patched text of a file, in order."""
    sites, growth, data = [], 0, patched.encode()
    for edit in changes:
        start, length = edit.start + growth, len(edit.text.encode())
        growth += length - (edit.end - edit.start)
        blank = length - len(edit.text.lstrip().encode())
        sites.append(
            Site(
                file,
                1 + _breaks(data[: start + (blank if blank < length else 0)]),
                scope_of(edit.around),
                source.slice(edit.start, edit.end),
                edit.text,
                start,
                start + length,
                edit.kind,
                None if edit.anchor is None else _moved(changes, edit.anchor.start),
                edit.anchor_before,
                (edit.start, edit.end),
                edit.around.start,
                edit.beside_is_before,
            )
        )
    return sites


def _breaks(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")
