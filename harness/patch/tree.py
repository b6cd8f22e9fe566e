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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

DEFINITIONS = ("FunctionDef", "ClassDef")


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
