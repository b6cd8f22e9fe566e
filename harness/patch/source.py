"""One file's text with its syntax tree, lines and definitions."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from harness.patch.reader import BOM, read_module
from harness.patch.tree import DEFINITIONS, Node, scope_of


@dataclass(frozen=True, slots=True)
class Definition:
    """A ``def`` or ``class``: its dotted name in the module, and its clause."""

    name: str
    clause: Node


@dataclass(frozen=True, eq=False)
class Source:
    """One file's text with its syntax tree, as made by `read_source`."""

    text: str
    root: Node
    unit: str
    newline: str
    data: bytes = field(repr=False)

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        """Every function and class, in the order of their headers."""
        definitions = [
            Definition(scope_of(node), node)
            for node in self.root.walk()
            if node.kind in DEFINITIONS
        ]
        return tuple(sorted(definitions, key=lambda definition: definition.clause.start))

    @cached_property
    def _line_starts(self) -> list[int]:
        return line_starts(self.data)

    def line_of(self, offset: int) -> int:
        """The 1-based line of a byte offset."""
        return bisect_right(self._line_starts, offset)

    def slice(self, start: int, end: int) -> str:
        """The text between two offsets."""
        return self.data[start:end].decode()

    def code(self, node: Node) -> str:
        """The node's text, its own parentheses and decorators included."""
        start, end = node.outer
        return self.slice(min(start, node.begin), end)

    def line_start(self, offset: int) -> int:
        """The offset of the first byte of the line with this offset."""
        return 1 + max(self.data.rfind(b"\n", 0, offset), self.data.rfind(b"\r", 0, offset))

    def line_end(self, offset: int) -> int:
        """The offset of the line break at or after an offset, or the end of the text."""
        line_break = re.compile(rb"[\r\n]").search(self.data, offset)
        return line_break.start() if line_break else len(self.data)

    def next_line(self, offset: int) -> int:
        """The offset of the line after the one with this offset."""
        end = self.line_end(offset)
        return end + (2 if self.data[end : end + 2] == b"\r\n" else end < len(self.data))

    def indent_at(self, offset: int) -> str:
        """The indentation of the line with this offset."""
        line = self.slice(self.line_start(offset), offset).removeprefix(BOM)
        return line[: len(line) - len(line.lstrip(" \t\f"))]


def line_starts(data: bytes) -> list[int]:
    """The offset at which each line begins, with lines counted as Python counts them."""
    return [0, *(match.end() for match in re.finditer(rb"\r\n|\n|\r", data))]


def parse_source(text: str) -> Source:
    """Parse a module. Raises `libcst.ParserSyntaxError`."""
    root, unit, newline = read_module(text)
    return Source(text, root, unit, newline, text.encode())


@lru_cache(maxsize=256)
def read_source(text: str) -> Source:
    """`parse_source` with a cache; its trees are shared and must not be modified."""
    return parse_source(text)
