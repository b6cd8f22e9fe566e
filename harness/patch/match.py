"""Finding code that equals a pattern: a generator of bindings, with backtracking.

A binding maps each metavariable to the node or siblings that it stands for, and each statement,
clause and gap of the pattern to its match in the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.patch.notation import Hunk
from harness.patch.tree import DEFINITIONS, Node, Source, same_code


@dataclass(frozen=True, eq=False)
class Siblings:
    """The siblings `nodes[start:end]`, which may be empty."""

    nodes: tuple[Node, ...]
    start: int
    end: int

    @property
    def taken(self) -> tuple[Node, ...]:
        """The siblings as a tuple."""
        return self.nodes[self.start : self.end]


Binding = Mapping["str | Node", "Node | Siblings"]


@dataclass(frozen=True, eq=False)
class Match:
    """A place where a pattern matches."""

    nodes: tuple[Node, ...]
    """The expression, or the run of statements."""
    binding: Binding

    @property
    def span(self) -> tuple[int, int]:
        """The bytes from the first node's decorators or parentheses to the last node's end."""
        first, last = self.nodes[0], self.nodes[-1]
        return min(first.begin, first.outer[0]), last.outer[1]


def find_matches(hunk: Hunk, root: Node) -> list[Match]:
    """A hunk's matches in a module or definition. Raises `HunkError` if its pattern is too long."""
    try:
        if hunk.is_expression:
            assert hunk.before.expression is not None
            return list(_expressions(hunk.before.expression, root))
        return list(_statements(hunk.pattern, root))
    except RecursionError:
        remedy = "write only the part that changes, and `$name` for the code around it"
        raise hunk.error("this hunk is too long to search for", remedy) from None


def _expressions(pattern: Node, root: Node) -> Iterator[Match]:
    """Yield the outermost expressions below a node that equal the pattern."""
    pending = [root]
    while pending:
        node = pending.pop()
        binding = next(_node(pattern, node, {}), None) if node.is_expression else None
        if binding is None:
            pending.extend(reversed(list(node.children())))
        else:
            yield Match((node,), binding)


def _statements(pattern: Sequence[Node], root: Node) -> Iterator[Match]:
    """Yield the outermost runs of statements in a module or definition that equal the pattern.

    A definition itself is a run of one statement.
    """
    if root.kind in DEFINITIONS and root.parent is not None:
        yield from _in_block(pattern, (root.parent,))
    else:
        yield from _in_block(pattern, root.block("body"))


def _in_block(pattern: Sequence[Node], block: tuple[Node, ...]) -> Iterator[Match]:
    start = 0
    while start < len(block):
        for end, binding in _sequence(pattern, Siblings(block, start, len(block)), {}, whole=False):
            if end > start:
                yield Match(block[start:end], binding)
                start = end
                break
        else:
            for clause in block[start].block("clauses"):
                yield from _in_block(pattern, clause.block("body"))
            start += 1


def _node(pattern: Node, node: Node, binding: Binding) -> Iterator[Binding]:
    if pattern.hole:
        yield from _bind(pattern, node, binding)
        return
    # Equivalent forms first, or `np.sum(x)` would match `$a.sum(x)`.
    for form, parts in pattern.equivalents:
        for local in _node(form, node, {}):
            named = [(part, local[hole]) for hole, part in parts.items()]
            yield from _all(named, _recorded(pattern, node, binding))
    if pattern.kind == node.kind and pattern.value == node.value:
        yield from _parts(pattern, node, list(pattern.parts), _recorded(pattern, node, binding))


def _recorded(pattern: Node, node: Node, binding: Binding) -> Binding:
    """Return the binding with the match of a statement, clause or decorator of the pattern."""
    if pattern.slot in ("body", "clauses", "decorators"):
        return {**binding, pattern: node}
    return binding


def _all(
    pairs: Sequence[tuple[tuple[Node, ...], Node | Siblings]], binding: Binding
) -> Iterator[Binding]:
    """Match each run of patterns with its code."""
    if not pairs:
        yield binding
        return
    (patterns, code), *rest = pairs
    run = code if isinstance(code, Siblings) else Siblings((code,), 0, 1)
    for _, extended in _sequence(patterns, run, binding, whole=True):
        yield from _all(rest, extended)


def _bind(pattern: Node, node: Node, binding: Binding) -> Iterator[Binding]:
    hole = pattern.hole
    assert hole is not None
    if node.kind != "Name" and not node.is_expression:
        return
    if pattern.spellings and not any(_matches(form, node) for form in pattern.spellings):
        return
    if any(_matches(form, node) for form in pattern.refused):
        return
    bound = binding.get(hole)
    if bound is None:
        yield {**binding, hole: node}
    elif isinstance(bound, Node) and same_code(bound, node):
        yield binding


def match_node(pattern: Node, node: Node) -> Binding | None:
    """Return the pattern's binding to this node, or None if it does not match."""
    return next(_node(pattern, node, {}), None)


def _matches(pattern: Node, node: Node) -> bool:
    return match_node(pattern, node) is not None


def _parts(pattern: Node, node: Node, names: Sequence[str], binding: Binding) -> Iterator[Binding]:
    if not names:
        yield binding
        return
    for extended in _part(pattern, node, names[0], binding):
        yield from _parts(pattern, node, names[1:], extended)


def _part(pattern: Node, node: Node, name: str, binding: Binding) -> Iterator[Binding]:
    expected, actual = pattern.parts[name], node.parts[name]
    if not expected and name in pattern.lenient:
        yield binding
    elif isinstance(expected, tuple) and isinstance(actual, tuple):
        lenient = name == "body" and "docstring" in pattern.lenient
        skip = lenient and is_docstring(actual[0]) and not is_docstring(expected[0])
        yield from _all([(expected, Siblings(actual, int(skip), len(actual)))], binding)
    elif isinstance(expected, Node) and isinstance(actual, Node):
        if _is_run_of_indices(expected) and not _is_bare_tuple(actual):
            yield from _all([(expected.block("elements"), actual)], binding)
        else:
            yield from _node(expected, actual, binding)
    elif expected is actual is None:
        yield binding


def _sequence(
    pattern: Sequence[Node], run: Siblings, binding: Binding, *, whole: bool
) -> Iterator[tuple[int, Binding]]:
    """Match siblings from `run.start`, all of them if `whole`; yield the end of the match."""
    if not pattern:
        if not whole or run.start == run.end:
            yield run.start, binding
        return
    first, rest = pattern[0], pattern[1:]
    if first.hole and first.hole.startswith("..."):
        for end in range(run.start, run.end + 1):
            bound = _bind_run(first, Siblings(run.nodes, run.start, end), binding)
            if bound is not None:
                yield from _sequence(rest, Siblings(run.nodes, end, run.end), bound, whole=whole)
    elif run.start < run.end:
        for bound in _node(first, run.nodes[run.start], binding):
            later = Siblings(run.nodes, run.start + 1, run.end)
            yield from _sequence(rest, later, bound, whole=whole)


def _bind_run(pattern: Node, run: Siblings, binding: Binding) -> Binding | None:
    hole = pattern.hole
    assert hole is not None
    if hole == "...":
        return {**binding, pattern: run}
    bound = binding.get(hole)
    if bound is None:
        return {**binding, hole: run}
    if not isinstance(bound, Siblings) or len(bound.taken) != len(run.taken):
        return None
    return binding if all(map(same_code, bound.taken, run.taken)) else None


def _is_run_of_indices(node: Node) -> bool:
    """Whether the node is the index of ``x[$...i]``, which also matches ``x[i]``."""
    elements = node.block("elements")
    return node.slot == "slice" and any((e.hole or "").startswith("...") for e in elements)


def _is_bare_tuple(node: Node) -> bool:
    return node.kind == "Tuple" and not node.parens


def is_docstring(node: Node) -> bool:
    """Whether a statement is a string."""
    value = node.parts.get("value") if node.kind == "Expr" else None
    return isinstance(value, Node) and value.kind == "Constant" and value.value[0] == "str"


def code_of(source: Source, bound: Node | Siblings) -> str:
    """Return the text that a metavariable stands for."""
    if isinstance(bound, Node):
        return source.code(bound)
    taken = bound.taken
    return source.slice(taken[0].outer[0], taken[-1].outer[1]) if taken else ""
