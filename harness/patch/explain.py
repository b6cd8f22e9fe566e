"""The error for a hunk that matches nothing, with the nearest code."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence

from harness.core.message import Message, lines, message, verbatim
from harness.patch.match import find_matches
from harness.patch.notation import Hunk
from harness.patch.tree import Node, Source, scope_of


def explain(hunk: Hunk, sources: Mapping[str, Source]) -> tuple[Message, Message]:
    """Return the problem, with the nearest code, and the remedy."""
    problem = [
        message("this hunk matches nothing in this engine"),
        message(
            "  scope: {scope}: {where}",
            scope=hunk.scope.text or message("(the whole module)"),
            where=_scope(hunk, sources),
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


def _scope(hunk: Hunk, sources: Mapping[str, Source]) -> Message:
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
