"""Applying a patch: find every hunk's matches in the same original, change all of them or none."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise

import libcst as cst

from harness.core.errors import EnvironmentProblem, HunkError
from harness.patch.explain import does_not_apply
from harness.patch.layout import Edit, edits, removed_nodes
from harness.patch.match import Match, find_expressions, find_statements
from harness.patch.notation import Hunk, Patch
from harness.patch.patched import Patched, Site
from harness.patch.render import UnfitBinding
from harness.patch.scope import Alternative
from harness.patch.side import TOO_DEEP, quiet_parse
from harness.patch.source import Source, read_source
from harness.patch.tree import Node, scope_of


@dataclass(frozen=True, eq=False)
class Found:
    """A match of a hunk in a file."""

    hunk: Hunk
    file: str
    source: Source
    match: Match


def apply_patch(patch: Patch, sources: Mapping[str, str]) -> Patched:
    """Apply all hunks to an engine's sources (path to text), or none.

    Raises `DoesNotApply` if a hunk matches nothing, `HunkError` if it is ambiguous, if sites
    overlap, if their number is not the one promised, or if the result is no better Python than
    before; `EnvironmentProblem` if a source cannot be parsed.
    """
    found: list[Found] = []
    for hunk in patch.hunks:
        here = _find(hunk, sources)
        if not here:
            raise does_not_apply(hunk, sources, partial(_read_all, sources), matches)
        _refuse_ambiguity(hunk, here)
        found += here
    changed, sites = dict(sources), list[Site]()
    for file in sources:
        inside = [each for each in found if each.file == file]
        if inside:
            changed[file], new = _change(file, inside)
            sites += new
    _count(patch, sites)
    return Patched(changed, tuple(sites), dict(sources))


def matches(hunk: Hunk, root: Node) -> list[Match]:
    """A hunk's matches below a module or definition. Raises `HunkError` for a pattern too long."""
    try:
        if hunk.is_expression:
            assert hunk.before.expression is not None
            return list(find_expressions(hunk.before.expression, root))
        return list(find_statements(hunk.pattern, root))
    except RecursionError:
        remedy = "write the part that changes, and `$name` for what stands around it"
        raise hunk.error("this hunk is too long to be looked for", remedy) from None


# ----- finding -----


def _read(file: str, text: str) -> Source:
    try:
        return read_source(text)
    except cst.ParserSyntaxError as error:
        problem = f"{file}:{error.raw_line}: this file of the engine is not Python: {error.message}"
        raise EnvironmentProblem(problem, "repair the file, or leave it out") from None
    except RecursionError:
        problem = f"{file}: this file of the engine is {TOO_DEEP}"
        remedy = "break its longest expression up, or leave the file out"
        raise EnvironmentProblem(problem, remedy) from None


def _read_all(sources: Mapping[str, str]) -> dict[str, Source]:
    """All that are Python: what is no Python has nothing that comes near."""
    found = {}
    for file, text in sources.items():
        with suppress(EnvironmentProblem):
            found[file] = _read(file, text)
    return found


def _find(hunk: Hunk, sources: Mapping[str, str]) -> list[Found]:
    found: dict[tuple[str, int, int], Found] = {}
    for file, text in sources.items():
        if any(each.may_be_in(file, text) for each in hunk.scope.alternatives) and all(
            name in text for name in hunk.before.names
        ):
            source = _read(file, text)
            for root in _roots(hunk.scope.alternatives, file, source):
                for match in matches(hunk, root):
                    found[file, *match.span] = Found(hunk, file, source, match)
    return list(found.values())


def _roots(alternatives: Iterable[Alternative], file: str, source: Source) -> list[Node]:
    """The module, or the outermost definitions that the scope names."""
    here = [each for each in alternatives if each.takes_file(file)]
    if any(not each.path for each in here):
        return [source.root]
    named = {found.clause: None for each in here for found in each.definitions(source)}
    return [clause for clause in named if named.keys().isdisjoint(clause.ancestors())]


def _refuse_ambiguity(hunk: Hunk, found: Sequence[Found]) -> None:
    """Raise if one name without wildcards means several definitions that have sites."""
    for alternative in hunk.scope.alternatives:
        hit = _hit(alternative, found) if alternative.is_exact else {}
        if len(hit) > 1:
            places = "".join(f"\n    {file}:{line} {name}" for (file, name), line in hit.items())
            problem = f"the scope `{alternative}` means several definitions that match:{places}"
            file, name = next(iter(hit))
            top = "" if "." in name else "."
            narrow = f"{file.rpartition('/')[2]}::{top}{name}"
            wide = ".".join([*alternative.path[:-1], f"*{alternative.path[-1]}"])
            remedy = f"name one (`@@ {narrow} @@`), or all of them with a wildcard (`@@ {wide} @@`)"
            raise hunk.error(problem, remedy)


def _hit(alternative: Alternative, found: Sequence[Found]) -> dict[tuple[str, str], int]:
    """The outermost definitions of that name in which something was found, with their lines."""
    hit: dict[tuple[str, str], int] = {}
    for each in found:
        if alternative.takes_file(each.file):
            start, end = each.match.span
            for definition in alternative.definitions(each.source):
                clause = definition.clause
                if clause.begin <= start and end <= clause.end:
                    line = each.source.line_of(clause.start)
                    hit.setdefault((each.file, definition.name), line)
                    break
    return hit


# ----- changing -----


def _change(file: str, found: Sequence[Found]) -> tuple[str, list[Site]]:
    """One file's patched text and its sites."""
    source = found[0].source
    doomed = frozenset(node for each in found for node in removed_nodes(each.hunk, each.match))
    made = [edit for each in found for edit in _edits(each, doomed)]
    made.sort(key=lambda edit: (edit.start, edit.end))
    _refuse_overlap(made, file, source)
    patched = _splice(made, source)
    _verify(made, file, source, patched)
    return patched, _sites(made, file, source, patched)


def _edits(found: Found, doomed: frozenset[Node]) -> list[Edit]:
    try:
        return edits(found.hunk, found.match, found.source, doomed)
    except UnfitBinding as error:
        line = found.source.line_of(found.match.span[0])
        remedy = "write the + side for what matched, or narrow the scope or the pattern"
        raise found.hunk.error(f"at {found.file}:{line}: {error}", remedy) from None


def _refuse_overlap(made: Sequence[Edit], file: str, source: Source) -> None:
    for one, other in pairwise(made):
        same_point = one.start == other.start and one.end == other.end
        if other.start < one.end or same_point:
            line = source.line_of(other.start)
            hunks = sorted({one.hunk.line, other.hunk.line})
            who = f"the hunks of lines {hunks[0]} and {hunks[-1]}"
            who = who if one.hunk is not other.hunk else "two matches of this hunk"
            problem = f"{who} change the same place, {file}:{line}"
            remedy = "merge them into one hunk, or narrow a scope or a pattern"
            raise other.hunk.error(problem, remedy)


def _splice(made: Sequence[Edit], source: Source) -> str:
    pieces, at = [], 0
    for edit in made:
        pieces += [source.data[at : edit.start], edit.text.encode()]
        at = edit.end
    return b"".join([*pieces, source.data[at:]]).decode()


def _moved(made: Sequence[Edit], offset: int) -> int:
    """Where an offset that no edit takes away is in the patched text."""
    before = [edit for edit in made if edit.end <= offset and edit.start < offset]
    return offset + sum(len(edit.text.encode()) - (edit.end - edit.start) for edit in before)


def _sites(made: Sequence[Edit], file: str, source: Source, patched: str) -> list[Site]:
    sites, growth, data = [], 0, patched.encode()
    for edit in made:
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
                None if edit.anchor is None else _moved(made, edit.anchor.start),
                edit.anchor_before,
                (edit.start, edit.end),
                edit.around.start,
                edit.beside_is_before,
            )
        )
    return sites


def _breaks(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


# ----- checking -----


def _verify(made: Sequence[Edit], file: str, source: Source, patched: str) -> None:
    """Raise unless the patched text compiles, to another tree than the original."""
    try:
        tree = quiet_parse(patched)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(tree, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None) or 1
        code = patched.splitlines()[line - 1 : line] or [""]
        hunk = min(made, key=lambda edit: abs(source.line_of(edit.start) - line)).hunk
        message = getattr(error, "msg", str(error))
        problem = f"the patched {file}:{line} is not Python: {message}: `{code[0].strip()}`"
        remedy = "narrow the scope or the pattern, or change the + side, so that every site parses"
        raise hunk.error(problem, remedy) from None
    if _same_tree(tree, _original_tree(source.text)):
        problem = f"the patched {file} means the same as before: its syntax tree has not changed"
        raise made[0].hunk.error(problem, "make the + side differ from the - side")


@lru_cache(maxsize=64)
def _original_tree(text: str) -> ast.Module:
    """The tree of a file that many patches change, read once."""
    return quiet_parse(text)


def _same_tree(one: object, other: object) -> bool:
    """Whether two syntax trees are equal, positions aside; stops at the first difference."""
    pending = [(one, other)]
    while pending:
        left, right = pending.pop()
        if type(left) is not type(right):
            return False
        if isinstance(left, ast.AST):
            pending += [(getattr(left, name), getattr(right, name)) for name in left._fields]
        elif isinstance(left, list):
            assert isinstance(right, list)
            if len(left) != len(right):
                return False
            pending += zip(left, right, strict=True)
        elif left != right:
            return False
    return True


def _count(patch: Patch, sites: Sequence[Site]) -> None:
    if patch.sites in (None, len(sites)) or not patch.hunks:
        return
    listed = "".join(
        f"\n    {site.file}:{site.line} {site.scope or 'module'}: "
        f"{' '.join((site.before or site.after).split())}"
        for site in sites
    )
    problem = f"the page promises {patch.sites} sites, and {len(sites)} matched:{listed}"
    remedy = "correct `sites`, or narrow a scope or a pattern until only the meant places match"
    raise HunkError(patch.hunks[0].path, patch.hunks[0].line, problem, remedy)
