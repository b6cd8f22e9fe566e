"""The syntax tree used for matching: LibCST's tree without layout, with byte spans.

The layout (white space, parentheses, commas, comments, quotes) is dropped, and equivalent forms are
normalised. Three shapes differ from LibCST's, so that a block is one flat list:

* statements that share a line are siblings like all others (``mates`` holds those on the line);
* a compound statement is a ``Compound`` of *clauses* (``if``/``elif``/``else``; one for a
  ``def``), and a clause is a header and a ``body``;
* parameters are one list, ``/`` and ``*`` included.

Offsets are UTF-8 bytes into the text. `harness.patch.reader` makes these nodes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from harness.core.site import BOM, line_starts

DEFINITIONS = ("FunctionDef", "ClassDef")

# Only a name is valid here, not any expression.
_NAMES_ONLY = {
    ("Attribute", "attr"),
    ("Keyword", "keyword"),
    ("FunctionDef", "name"),
    ("ClassDef", "name"),
    ("Param", "name"),
    ("NameItem", "name"),
    ("ImportAlias", "name"),
    ("ImportAlias", "asname"),
    ("ImportFrom", "module"),
    ("ExceptHandler", "name"),
    ("ExceptStarHandler", "name"),
    ("MatchAs", "name"),
    ("MatchStar", "name"),
    ("MatchMapping", "rest"),
    ("MatchKeywordElement", "key"),
    ("MatchSingleton", "value"),
    ("TypeVar", "name"),
    ("TypeVarTuple", "name"),
    ("ParamSpec", "name"),
}
# Brackets of the syntax around the expression: the code inside may span lines.
_BRACKETED = {
    ("Call", "args"),
    ("Subscript", "slice"),
    ("FunctionDef", "params"),
    ("ClassDef", "args"),
    *((kind, "elements") for kind in ("List", "Set", "Dict")),
    *((kind, slot) for kind in ("ListComp", "SetComp", "DictComp") for slot in ("elt", "for_in")),
    *(("DictComp", slot) for slot in ("key", "value")),
}


@dataclass(eq=False, slots=True)
class Node:
    """A piece of code: its ``kind``, its atoms (``value``) and its ``parts``, without layout."""

    kind: str
    value: tuple[object, ...]
    parts: dict[str, Node | tuple[Node, ...] | None]
    start: int
    end: int
    is_expression: bool = False
    parens: tuple[tuple[int, int], ...] = ()
    """The spans of its own parentheses, innermost first."""
    bracketed: bool = False
    """Whether a line may end anywhere here, because a bracket or parenthesis is open."""
    parent: Node | None = None
    slot: str = ""
    index: int = 0
    mates: tuple[Node, ...] = ()
    """The simple statements on this one's line, itself included; () for other nodes."""
    suite: bool = False
    """Whether the mates follow the colon of their header."""
    header_end: int = 0
    """For a clause: the offset after its colon."""
    hole: str | None = None
    """In a pattern: ``x`` for ``$x``, ``...x`` for ``$...x``, ``...`` for a gap."""
    lenient: frozenset[str] = frozenset()
    """In a pattern: the parts that match anything if the pattern leaves them out."""
    spellings: tuple[Node, ...] = ()
    """In a pattern: the only forms that this hole matches; empty if it matches any expression."""
    refused: tuple[Node, ...] = ()
    """In a pattern: forms that this hole does not match."""
    equivalents: tuple[tuple[Node, Mapping[str, tuple[Node, ...]]], ...] = ()
    """In a pattern: equivalent forms, each with the code for its holes."""

    @property
    def outer(self) -> tuple[int, int]:
        """The span with all of its own parentheses."""
        return self.parens[-1] if self.parens else (self.start, self.end)

    @property
    def begin(self) -> int:
        """The start, decorators included."""
        first = self.block("clauses")[0] if self.kind == "Compound" else self
        decorators = first.block("decorators")
        return decorators[0].start if decorators else self.start

    def block(self, name: str) -> tuple[Node, ...]:
        """The part of that name as a tuple; () if it is missing."""
        part = self.parts.get(name)
        return part if isinstance(part, tuple) else ()

    def children(self) -> Iterator[Node]:
        """The nodes directly below."""
        for part in self.parts.values():
            if isinstance(part, tuple):
                yield from part
            elif part is not None:
                yield part

    def walk(self) -> Iterator[Node]:
        """This node and everything below it, outermost first."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(list(node.children())))

    def ancestors(self) -> Iterator[Node]:
        """The nodes around this one, innermost first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def siblings(self) -> tuple[Node, ...]:
        """The list that contains this node."""
        return self.parent.block(self.slot) if self.parent else (self,)


def same_code(one: Node, other: Node) -> bool:
    """Whether two nodes are equal code, apart from layout."""
    if one.kind != other.kind or one.value != other.value:
        return False
    if list(map(bool, one.parts.values())) != list(map(bool, other.parts.values())):
        return False
    children, others = list(one.children()), list(other.children())
    return len(children) == len(others) and all(map(same_code, children, others))


def scope_of(node: Node) -> str:
    """The dotted name of the innermost definition around a node, itself included."""
    chain = [node, *node.ancestors()]
    names = [
        str(name.value[0])
        for clause in chain
        if clause.kind in DEFINITIONS and isinstance(name := clause.parts["name"], Node)
    ]
    return ".".join(reversed(names))


def link(root: Node) -> None:
    """Set the place of every node: parent, slot, index, open brackets, whether only names fit."""
    pending = [root]
    while pending:
        node = pending.pop()
        for slot, part in node.parts.items():
            children = part if isinstance(part, tuple) else (part,) if part else ()
            for index, child in enumerate(children):
                child.parent, child.slot, child.index = node, slot, index
                opened = (node.kind, slot) in _BRACKETED or bool(child.parens)
                child.bracketed = node.bracketed or opened
                dotted_name = node.kind == "Attribute" and not node.is_expression
                if (node.kind, slot) in _NAMES_ONLY or dotted_name:
                    child.is_expression = False
                pending.append(child)


@dataclass(frozen=True, slots=True)
class Definition:
    """A ``def`` or ``class``: its dotted name in the module, and its clause."""

    name: str
    clause: Node


SYMBOLS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow", "@": "matmul"}
"""Keys of rules that are operators, and the names of their ops."""


def _rule_of(element: Node) -> Iterator[tuple[str, Node]]:
    """Yield the key and the lambda of an entry of a dictionary whose key is a string."""
    key, rule = element.parts["key"], element.parts["value"]
    if not (isinstance(key, Node) and isinstance(rule, Node) and rule.kind == "Lambda"):
        return
    if key.kind == "Constant" and key.value[0] == "str":
        yield str(key.value[1]), rule


@dataclass(frozen=True, eq=False)
class Source:
    """One file's text with its syntax tree, as made by `reader.read_source`."""

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
    def rules(self) -> tuple[Definition, ...]:
        """Every lambda in a dictionary, by its key: a table of rules, such as `{"plus": ...}`."""
        return tuple(
            Definition(".".join(filter(None, (scope_of(node), SYMBOLS.get(name, name)))), rule)
            for node in self.root.walk()
            if node.kind == "DictElement"
            for name, rule in _rule_of(node)
        )

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
