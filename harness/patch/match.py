"""Finding code that equals a pattern, and the nearest code if there is none.

The search yields bindings, with backtracking. A binding maps each metavariable to the node or
siblings that it stands for, and each statement, clause and gap of the pattern to its match in the
source.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.core.message import Message, lines, message, verbatim
from harness.patch.notation import Hunk
from harness.patch.tree import DEFINITIONS, Node, Source, same_code, scope_of


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
class PatternMatch:
    """A place where a pattern matches."""

    nodes: tuple[Node, ...]
    """The expression, or the run of statements."""
    binding: Binding

    @property
    def span(self) -> tuple[int, int]:
        """The bytes from the first node's decorators or parentheses to the last node's end."""
        first, last = self.nodes[0], self.nodes[-1]
        return min(first.begin, first.outer[0]), last.outer[1]


def find_matches(hunk: Hunk, root: Node) -> list[PatternMatch]:
    """A hunk's matches in a module or definition. Raises `HunkError` if its pattern is too long."""
    try:
        if hunk.is_expression:
            assert hunk.before.expression is not None
            return list(_expressions(hunk.before.expression, root))
        return list(_statements(hunk.pattern, root))
    except RecursionError:
        remedy = "write only the part that changes, and `$name` for the code around it"
        raise hunk.error("this hunk is too long to search for", remedy) from None


def every_match(hunk: Hunk, root: Node) -> Iterator[PatternMatch]:
    """Yield a hunk's matches in a definition with each of their bindings, nested ones included."""
    if hunk.is_expression:
        assert hunk.before.expression is not None
        for node in root.walk():
            if node.is_expression:
                for binding in _node(hunk.before.expression, node, {}):
                    yield PatternMatch((node,), binding)
        return
    for block in _blocks(root):
        for start in range(len(block)):
            run = Siblings(block, start, len(block))
            for end, binding in _sequence(hunk.pattern, run, {}, whole=False):
                if end > start:
                    yield PatternMatch(block[start:end], binding)


def _blocks(root: Node) -> Iterator[tuple[Node, ...]]:
    """Yield every block of statements in a definition; the definition itself is the first one."""
    if root.kind in DEFINITIONS and root.parent is not None:
        yield (root.parent,)
    for node in root.walk():
        if body := node.block("body"):
            yield body


def _expressions(pattern: Node, root: Node) -> Iterator[PatternMatch]:
    """Yield the outermost expressions below a node that equal the pattern."""
    pending = [root]
    while pending:
        node = pending.pop()
        binding = next(_node(pattern, node, {}), None) if node.is_expression else None
        if binding is None:
            pending.extend(reversed(list(node.children())))
        else:
            yield PatternMatch((node,), binding)


def _statements(pattern: Sequence[Node], root: Node) -> Iterator[PatternMatch]:
    """Yield the outermost runs of statements in a module or definition that equal the pattern.

    A definition itself is a run of one statement.
    """
    if root.kind in DEFINITIONS and root.parent is not None:
        yield from _in_block(pattern, (root.parent,))
    else:
        yield from _in_block(pattern, root.block("body"))


def _in_block(pattern: Sequence[Node], block: tuple[Node, ...]) -> Iterator[PatternMatch]:
    start = 0
    while start < len(block):
        for end, binding in _sequence(pattern, Siblings(block, start, len(block)), {}, whole=False):
            if end > start:
                yield PatternMatch(block[start:end], binding)
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


# ----- No match: the nearest code -----


def explain(hunk: Hunk, sources: Mapping[str, Source]) -> tuple[Message, Message]:
    """Return the problem of a hunk that matches nothing, with the nearest code, and the remedy."""
    problem = [
        message("this hunk matches nothing in this engine"),
        message(
            "  scope: {scope}: {where}",
            scope=hunk.scope.text or message("(the whole module)"),
            where=_where(hunk, sources),
        ),
        *_indented(message("  searched for:"), hunk.before.text().split("\n")),
        *_indented(
            message("  the same code matches elsewhere:"), list(_elsewhere(hunk, sources))[:5]
        ),
        *_indented(message("  the most similar code:"), list(_similar(hunk, sources))),
    ]
    remedy = message(
        "change the scope or the - and context lines to match the engine's source, or map the "
        "names in [engine.names]; an engine that is built differently needs its own diff block"
    )
    return lines(problem), remedy


def _indented(title: Message, code: Sequence[str]) -> list[Message]:
    return [title, *(verbatim(f"    {line}") for line in code)] if code else []


def _where(hunk: Hunk, sources: Mapping[str, Source]) -> Message:
    """Where the scope is, or the most similar names."""
    files = _files(hunk, sources)
    if not sources:
        return message("there are no files at all")
    if not files:
        return message("no such file among {files}", files=", ".join(sources))
    definitions = hunk.scope.named(sources)
    if definitions:
        places = [f"{file}:{sources[file].line_of(d.clause.start)}" for file, d in definitions]
        listed = ", ".join(places[:5])
        return message("found at {places}, but the code is not in it", places=listed)
    if any(not alternative.path for alternative in hunk.scope.alternatives):
        return message("all of {files}", files=", ".join(list(files)[:5]))
    names = {d.name for source in sources.values() for d in source.definitions}
    wanted = [".".join(alternative.path).strip(".*") for alternative in hunk.scope.alternatives]
    similar = [name for path in wanted for name in _similar_names(path, names)]
    if similar:
        listed = ", ".join(similar[:5])
        return message("no definition has this name; nearest: {names}", names=listed)
    return message("no definition has this name")


def _similar_names(wanted: str, names: set[str]) -> list[str]:
    """The names that are similar as a whole, then those whose last parts are."""
    parts = 1 + wanted.count(".")
    tails = {name: ".".join(name.split(".")[-parts:]) for name in sorted(names)}
    close = difflib.get_close_matches(wanted, set(tails.values()))
    whole = difflib.get_close_matches(wanted, sorted(names))
    return [*whole, *(n for n, tail in tails.items() if tail in close and n not in whole)]


def _files(hunk: Hunk, sources: Mapping[str, Source]) -> dict[str, Source]:
    return {file: source for file, source in sources.items() if hunk.scope.takes_file(file)}


def _elsewhere(hunk: Hunk, sources: Mapping[str, Source]) -> Iterator[str]:
    for file, source in sources.items():
        for match in find_matches(hunk, source.root):
            start, end = match.span
            code = source.slice(start, end).strip().splitlines()[0]
            scope = scope_of(match.nodes[0]) or "module"
            yield f"{file}:{source.line_of(start)} {scope}: {code}"


def _similar(hunk: Hunk, sources: Mapping[str, Source]) -> Iterator[str]:
    """The code most similar to the hunk's first - line, in the scope if it exists."""
    roots = [(file, definition.clause) for file, definition in hunk.scope.named(sources)]
    roots = roots or [(file, source.root) for file, source in _files(hunk, sources).items()]
    code = {
        f"{file}:{line}: {text}": text
        for file, root in roots
        for line, text in _candidates(hunk, root, sources[file])
    }
    close = difflib.get_close_matches(_key_line(hunk), set(code.values()), n=3, cutoff=0.5)
    for text in close:
        yield next(place for place, other in code.items() if other == text)


def _candidates(hunk: Hunk, root: Node, source: Source) -> Iterator[tuple[int, str]]:
    """Code to compare with the hunk, by line: expressions of its kind, or whole lines."""
    first, last = source.line_of(root.begin), source.line_of(root.end - 1)
    if hunk.is_expression and hunk.before.expression:
        for node in root.walk():
            if node.kind == hunk.before.expression.kind:
                yield source.line_of(node.start), " ".join(source.code(node).split())
    else:
        for number, text in enumerate(source.text.split("\n")[first - 1 : last], first):
            if text.strip():
                yield number, text.strip()


def _key_line(hunk: Hunk) -> str:
    """The first line that the hunk removes, else its first line."""
    code = hunk.before.text().split("\n")
    context = set(hunk.after.rows)
    pairs = zip(hunk.before.rows, code, strict=False)
    removed = [line for row, line in pairs if row not in context]
    return (removed or code)[0].strip()
