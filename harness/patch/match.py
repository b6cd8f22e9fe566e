"""Finding code that equals a pattern: one generator of bindings, with backtracking.

A binding maps a metavariable to the node, or the run of siblings, that it stands for, and every
statement, clause and gap of the pattern to what it met in the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.patch.source import Source
from harness.patch.tree import DEFINITIONS, Node, same_code


@dataclass(frozen=True, eq=False)
class Run:
    """Siblings `nodes[start:end]`; possibly none of them."""

    nodes: tuple[Node, ...]
    start: int
    end: int

    @property
    def taken(self) -> tuple[Node, ...]:
        """The siblings themselves."""
        return self.nodes[self.start : self.end]


Binding = Mapping["str | Node", "Node | Run"]


@dataclass(frozen=True, eq=False)
class Match:
    """One place where a pattern matched."""

    nodes: tuple[Node, ...]
    """The expression, or the run of statements."""
    binding: Binding

    @property
    def span(self) -> tuple[int, int]:
        """The bytes from the first node's decorators or parentheses to the last node's end."""
        first, last = self.nodes[0], self.nodes[-1]
        return min(first.begin, first.outer[0]), last.outer[1]


def find_expressions(pattern: Node, root: Node) -> Iterator[Match]:
    """The outermost expressions below a node that equal the pattern."""
    pending = [root]
    while pending:
        node = pending.pop()
        found = next(_node(pattern, node, {}), None) if node.is_expression else None
        if found is None:
            pending.extend(reversed(list(node.children())))
        else:
            yield Match((node,), found)


def find_statements(pattern: Sequence[Node], root: Node) -> Iterator[Match]:
    """The outermost runs of statements in or below a module or definition that equal the pattern.

    A definition itself counts as a run of one.
    """
    if root.kind in DEFINITIONS and root.parent is not None:
        yield from _in_block(pattern, (root.parent,))
    else:
        yield from _in_block(pattern, root.block("body"))


def _in_block(pattern: Sequence[Node], block: tuple[Node, ...]) -> Iterator[Match]:
    start = 0
    while start < len(block):
        for end, binding in _sequence(pattern, Run(block, start, len(block)), {}, whole=False):
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
    for form, parts in pattern.equivalents:  # first: `np.sum(x)` is no method of an `np`
        for local in _node(form, node, {}):
            named = [(part, local[hole]) for hole, part in parts.items()]
            yield from _all(named, _noted(pattern, node, binding))
    if pattern.kind == node.kind and pattern.value == node.value:
        yield from _parts(pattern, node, list(pattern.parts), _noted(pattern, node, binding))


def _noted(pattern: Node, node: Node, binding: Binding) -> Binding:
    """The binding with what a statement, clause or decorator of the pattern has met."""
    if pattern.slot in ("body", "clauses", "decorators"):
        return {**binding, pattern: node}
    return binding


def _all(
    pairs: Sequence[tuple[tuple[Node, ...], Node | Run]], binding: Binding
) -> Iterator[Binding]:
    """Match each run of patterns with its own code."""
    if not pairs:
        yield binding
        return
    (patterns, met), *rest = pairs
    run = met if isinstance(met, Run) else Run((met,), 0, 1)
    for _, found in _sequence(patterns, run, binding, whole=True):
        yield from _all(rest, found)


def _bind(pattern: Node, node: Node, binding: Binding) -> Iterator[Binding]:
    hole = pattern.hole
    assert hole is not None
    known = binding.get(hole)
    if node.kind != "Name" and not node.is_expression:
        return
    if pattern.spellings and not any(_is(each, node) for each in pattern.spellings):
        return
    if any(_is(each, node) for each in pattern.refused):
        return
    if known is None:
        yield {**binding, hole: node}
    elif isinstance(known, Node) and same_code(known, node):
        yield binding


def meets(pattern: Node, node: Node) -> Binding | None:
    """What the pattern's metavariables stand for if it is this node, and None if it is not."""
    return next(_node(pattern, node, {}), None)


def _is(pattern: Node, node: Node) -> bool:
    return meets(pattern, node) is not None


def _parts(pattern: Node, node: Node, names: Sequence[str], binding: Binding) -> Iterator[Binding]:
    if not names:
        yield binding
        return
    for found in _part(pattern, node, names[0], binding):
        yield from _parts(pattern, node, names[1:], found)


def _part(pattern: Node, node: Node, name: str, binding: Binding) -> Iterator[Binding]:
    wanted, given = pattern.parts[name], node.parts[name]
    if not wanted and name in pattern.lenient:
        yield binding
    elif isinstance(wanted, tuple) and isinstance(given, tuple):
        skip = name == "body" and "docstring" in pattern.lenient and _skips_docstring(wanted, given)
        run = Run(given, int(skip), len(given))
        for _, found in _sequence(wanted, run, binding, whole=True):
            yield found
    elif isinstance(wanted, Node) and isinstance(given, Node):
        if _is_run_of_indices(wanted) and not _is_bare_tuple(given):
            alone = Run((given,), 0, 1)
            for _, found in _sequence(wanted.block("elements"), alone, binding, whole=True):
                yield found
        else:
            yield from _node(wanted, given, binding)
    elif wanted is given is None:
        yield binding


def _sequence(
    pattern: Sequence[Node], run: Run, binding: Binding, *, whole: bool
) -> Iterator[tuple[int, Binding]]:
    """Match siblings from `run.start` on, up to `run.end` if `whole`; yields where it ended."""
    if not pattern:
        if not whole or run.start == run.end:
            yield run.start, binding
        return
    first, rest = pattern[0], pattern[1:]
    if first.hole and first.hole.startswith("..."):
        for end in range(run.start, run.end + 1):
            bound = _bind_run(first, Run(run.nodes, run.start, end), binding)
            if bound is not None:
                yield from _sequence(rest, Run(run.nodes, end, run.end), bound, whole=whole)
    elif run.start < run.end:
        for bound in _node(first, run.nodes[run.start], binding):
            later = Run(run.nodes, run.start + 1, run.end)
            yield from _sequence(rest, later, bound, whole=whole)


def _bind_run(pattern: Node, run: Run, binding: Binding) -> Binding | None:
    hole = pattern.hole
    assert hole is not None
    if hole == "...":
        return {**binding, pattern: run}
    known = binding.get(hole)
    if known is None:
        return {**binding, hole: run}
    same = isinstance(known, Run) and len(known.taken) == len(run.taken)
    if same and isinstance(known, Run) and all(map(same_code, known.taken, run.taken)):
        return binding
    return None


def _is_run_of_indices(node: Node) -> bool:
    """``x[$...i]`` also means ``x[i]``, which is no tuple."""
    elements = node.block("elements")
    return node.slot == "slice" and any((each.hole or "").startswith("...") for each in elements)


def _is_bare_tuple(node: Node) -> bool:
    return node.kind == "Tuple" and not node.parens


def _skips_docstring(wanted: Sequence[Node], given: Sequence[Node]) -> bool:
    return is_docstring(given[0]) and not is_docstring(wanted[0])


def is_docstring(node: Node) -> bool:
    """A statement that is just a text."""
    value = node.parts.get("value") if node.kind == "Expr" else None
    return isinstance(value, Node) and value.kind == "Constant" and value.value[0] == "str"


def code_of(source: Source, bound: Node | Run) -> str:
    """The text that a metavariable stands for."""
    if isinstance(bound, Node):
        return source.code(bound)
    taken = bound.taken
    return source.slice(taken[0].outer[0], taken[-1].outer[1]) if taken else ""
