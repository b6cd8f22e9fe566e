"""Applying a patch: find the matches of every hunk in the original text, then change them all."""

from __future__ import annotations

import ast
import difflib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice, pairwise, product
from types import CodeType

import libcst as cst

from harness.core.errors import DoesNotApply, EnvironmentProblem, HunkError
from harness.core.message import Message, message
from harness.core.site import Site
from harness.patch.layout import Edit, deleted_nodes, edits, sites_of, splice
from harness.patch.match import PatternMatch, every_match, explain, find_matches
from harness.patch.notation import Hunk, Patch
from harness.patch.reader import read_source
from harness.patch.render import UnfitBinding
from harness.patch.scope import Alternative, Scope
from harness.patch.side import quiet_parse
from harness.patch.tree import Node, Source

MOST_BINDINGS = 200
"""The number of bindings of a hunk in one definition that are tried one at a time."""


@dataclass(frozen=True)
class Patched:
    """All files of the engine after a patch."""

    sources: dict[str, str]
    sites: tuple[Site, ...]
    originals: Mapping[str, str] = field(repr=False)
    codes: Mapping[str, CodeType] = field(default_factory=dict, repr=False)
    """The files that the patch changes, compiled, each with its own path."""

    @property
    def line(self) -> int:
        """The line of the first change, in the original text."""
        site = self.sites[0]
        blank = len(site.before) - len(site.before.lstrip())
        source = read_source(self.originals[site.file])
        return source.line_of(site.origin[0] + (blank if site.before.strip() else 0))

    def diff(self) -> str:
        """The unified diff of the engine's code, with three lines of context."""
        out: list[str] = []
        for file, text in self.sources.items():
            if text != self.originals[file]:
                before, after = map(lines_of, (self.originals[file], text))
                for line in difflib.unified_diff(before, after, f"a/{file}", f"b/{file}"):
                    ended = line.endswith("\n")
                    out.append(line if ended else f"{line}\n\\ No newline at end of file\n")
        return "".join(out)


@dataclass(frozen=True, eq=False)
class FileMatch:
    """A match of a hunk in a file."""

    hunk: Hunk
    file: str
    source: Source
    match: PatternMatch


def apply_patch(patch: Patch, sources: Mapping[str, str]) -> Patched:
    """Apply all hunks to an engine's sources (path to text), or none.

    Raises `DoesNotApply` if a hunk matches nothing; `HunkError` if a hunk is ambiguous, if sites
    overlap, if their number differs from the page's, or if the result does not compile or has not
    changed; `EnvironmentProblem` if a source cannot be parsed.
    """
    matches: list[FileMatch] = []
    for hunk in patch.hunks:
        hunk_matches = _find(hunk, sources)
        if not hunk_matches:
            raise _does_not_apply(hunk, sources)
        _refuse_ambiguity(hunk, hunk_matches)
        matches += hunk_matches
    patched = _changed(matches, sources)
    _count(patch, patched.sites)
    return patched


def apply_at_one(patch: Patch, sources: Mapping[str, str]) -> Iterator[Patched]:
    """Yield the engine's sources with every hunk applied at one of its matches only.

    All combinations of matches are tried, at most `MOST_BINDINGS`. Those that do not compile, or
    mean the same as before, are left out. Raises EnvironmentProblem if a source cannot be parsed.
    """
    found = [_find(hunk, sources) for hunk in patch.hunks]
    for matches in islice(product(*found), MOST_BINDINGS):
        with suppress(HunkError):
            yield _changed(matches, sources, whole=False)


def apply_at_each(
    patch: Patch, file: str, text: str, roots: Callable[[Scope], Iterable[Node]]
) -> Iterator[Patched]:
    """Yield the file with each hunk applied at one of its sites, in one of its bindings.

    `roots` returns the definitions that a scope names, as nodes of `read_source(text)`. Changes
    that do not compile, or mean the same as before, are left out. Raises EnvironmentProblem if the
    text cannot be parsed.
    """
    source = _read(file, text)
    for hunk in patch.hunks:
        for root in roots(hunk.scope) if all(name in text for name in hunk.before.names) else ():
            for match in islice(every_match(hunk, root), MOST_BINDINGS):
                with suppress(HunkError):
                    found = FileMatch(hunk, file, source, match)
                    patched, code, sites = _change(file, [found], whole=False)
                    yield Patched({file: patched}, tuple(sites), {file: text}, {file: code})


# ----- finding -----


def _read(file: str, text: str) -> Source:
    try:
        return read_source(text)
    except cst.ParserSyntaxError as error:
        problem = message(
            "{file}:{line}: this file of the engine is not Python: {reason}",
            file=file,
            line=error.raw_line,
            reason=error.message,
        )
        raise EnvironmentProblem(problem, "correct the file, or remove it") from None
    except RecursionError:
        problem = message(
            "{file}: this file of the engine is nested too deeply to parse", file=file
        )
        remedy = "split its longest expression, or remove the file"
        raise EnvironmentProblem(problem, remedy) from None


def _find(hunk: Hunk, sources: Mapping[str, str]) -> list[FileMatch]:
    matches: dict[tuple[str, int, int], FileMatch] = {}
    for file, text in sources.items():
        if hunk.scope.may_be_in(file, text) and all(name in text for name in hunk.before.names):
            source = _read(file, text)
            for root in _roots(hunk.scope.alternatives, file, source):
                for match in find_matches(hunk, root):
                    matches[file, *match.span] = FileMatch(hunk, file, source, match)
    return list(matches.values())


def _roots(alternatives: Iterable[Alternative], file: str, source: Source) -> list[Node]:
    """Return the module, or the outermost definitions that the scope names."""
    in_file = [alternative for alternative in alternatives if alternative.takes_file(file)]
    if any(not alternative.path for alternative in in_file):
        return [source.root]
    definitions = [item for alternative in in_file for item in alternative.definitions(source)]
    clauses = dict.fromkeys(definition.clause for definition in definitions)
    return [clause for clause in clauses if clauses.keys().isdisjoint(clause.ancestors())]


def _does_not_apply(hunk: Hunk, sources: Mapping[str, str]) -> DoesNotApply:
    """Return the error for a hunk without a match; nearest code is only searched for display."""

    def explanation() -> tuple[Message, Message]:
        readable = {}
        for file, text in sources.items():
            with suppress(EnvironmentProblem):
                readable[file] = _read(file, text)
        return explain(hunk, readable)

    scope = hunk.scope.text or "(the whole module)"
    exists = any(hunk.scope.may_be_in(file, text) for file, text in sources.items())
    reason = f"{scope}: {'the code is not in it' if exists else 'no definition has this name'}"
    return DoesNotApply(reason, explanation, (hunk.path, hunk.line), absent=not exists)


def _refuse_ambiguity(hunk: Hunk, matches: Sequence[FileMatch]) -> None:
    """Raise if a name without wildcards refers to several definitions that contain matches."""
    for alternative in hunk.scope.alternatives:
        lines = _definition_lines(alternative, matches) if alternative.is_exact else {}
        if len(lines) > 1:
            places = "".join(f"\n    {file}:{line} {name}" for (file, name), line in lines.items())
            problem = message(
                "the scope `{alternative}` means several definitions that match:{places}",
                alternative=alternative,
                places=places,
            )
            file, name = next(iter(lines))
            top = "" if "." in name else "."
            narrow = f"{file.rpartition('/')[2]}::{top}{name}"
            wide = ".".join([*alternative.path[:-1], f"*{alternative.path[-1]}"])
            remedy = message(
                "name one (`@@ {narrow} @@`), or all of them with a wildcard (`@@ {wide} @@`)",
                narrow=narrow,
                wide=wide,
            )
            raise hunk.error(problem, remedy)


def _definition_lines(
    alternative: Alternative, matches: Sequence[FileMatch]
) -> dict[tuple[str, str], int]:
    """Return the line of each outermost definition of that name that contains a match."""
    lines: dict[tuple[str, str], int] = {}
    for found in matches:
        if alternative.takes_file(found.file):
            start, end = found.match.span
            for definition in alternative.definitions(found.source):
                clause = definition.clause
                if clause.begin <= start and end <= clause.end:
                    line = found.source.line_of(clause.start)
                    lines.setdefault((found.file, definition.name), line)
                    break
    return lines


# ----- changing -----


def _changed(
    matches: Sequence[FileMatch], sources: Mapping[str, str], *, whole: bool = True
) -> Patched:
    """Return all files with these matches changed."""
    changed, codes, sites = dict(sources), dict[str, CodeType](), list[Site]()
    for file in sources:
        in_file = [match for match in matches if match.file == file]
        if in_file:
            changed[file], codes[file], new_sites = _change(file, in_file, whole=whole)
            sites += new_sites
    return Patched(changed, tuple(sites), dict(sources), codes)


def _change(
    file: str, matches: Sequence[FileMatch], *, whole: bool = True
) -> tuple[str, CodeType, list[Site]]:
    """Return the patched text of one file, its code and its sites.

    Unless `whole`, the code outside the changed statement is that of the original, lines included.
    """
    source = matches[0].source
    compiled = _compiled if whole else _compiled_in_place
    deleted = frozenset(n for found in matches for n in deleted_nodes(found.hunk, found.match))
    changes = [edit for found in matches for edit in _edits(found, deleted)]
    changes.sort(key=lambda edit: (edit.start, edit.end))
    _refuse_overlap(changes, file, source)
    patched = splice(changes, source)
    code = compiled(changes, file, source, patched)
    return patched, code, sites_of(changes, file, source, patched)


def _edits(found: FileMatch, deleted: frozenset[Node]) -> list[Edit]:
    try:
        return edits(found.hunk, found.match, found.source, deleted)
    except UnfitBinding as error:
        line = found.source.line_of(found.match.span[0])
        remedy = "change the + side to fit the match, or narrow the scope or the pattern"
        raise found.hunk.error(
            message("at {file}:{line}: {error}", file=found.file, line=line, error=error), remedy
        ) from None


def _refuse_overlap(changes: Sequence[Edit], file: str, source: Source) -> None:
    for one, other in pairwise(changes):
        same_point = one.start == other.start and one.end == other.end
        if other.start < one.end or same_point:
            line = source.line_of(other.start)
            hunks = sorted({one.hunk.line, other.hunk.line})
            problem = message(
                "two matches of this hunk change the same place, {file}:{line}",
                file=file,
                line=line,
            )
            if one.hunk is not other.hunk:
                problem = message(
                    "the hunks of lines {first} and {last} change the same place, {file}:{line}",
                    first=hunks[0],
                    last=hunks[-1],
                    file=file,
                    line=line,
                )
            remedy = "merge them into one hunk, or narrow a scope or a pattern"
            raise other.hunk.error(problem, remedy)


# ----- checking -----


def _compiled(changes: Sequence[Edit], file: str, source: Source, patched: str) -> CodeType:
    """Compile the patched text, whose syntax tree must differ from the original's."""
    try:
        tree = quiet_parse(patched)
        code = _quiet_compile(tree, file)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None) or 1
        shown = patched.splitlines()[line - 1 : line] or [""]
        hunk = min(changes, key=lambda edit: abs(source.line_of(edit.start) - line)).hunk
        problem = message(
            "the patched {file}:{line} is not Python: {reason}: `{code}`",
            file=file,
            line=line,
            reason=getattr(error, "msg", str(error)),
            code=shown[0].strip(),
        )
        remedy = "narrow the scope or the pattern, or change the + side, so that every site parses"
        raise hunk.error(problem, remedy) from None
    if _same_tree(tree, _original_tree(source.text), source.line_of(changes[0].start)):
        problem = message(
            "the patched {file} means the same as before: its syntax tree has not changed",
            file=file,
        )
        raise changes[0].hunk.error(problem, "make the + side differ from the - side")
    return code


def _compiled_in_place(
    changes: Sequence[Edit], file: str, source: Source, patched: str
) -> CodeType:
    """Compile only the changed statement of the module, and put it into the original's code.

    To compile a long file takes a hundred times as long, and there may be hundreds of mutants.
    """
    first, last = source.line_of(changes[0].start), source.line_of(changes[-1].end)
    place = _alone_around(first, last, source.text)
    if place is None:
        return _compiled(changes, file, source, patched)
    number, begin, end = place
    rows, behind = patched.split("\n"), source.text.count("\n") + 1 - end
    text = "\n" * (begin - 1) + "\n".join(rows[begin - 1 : len(rows) - behind])
    code = None
    with suppress(SyntaxError, ValueError, RecursionError):
        new, old = quiet_parse(f"{text}\n").body, _original_tree(source.text).body[number]
        if len(new) == 1 and not _same_tree(new[0], old, first):
            code = _exchanged(file, source.text, number, new[0])
    return code or _compiled(changes, file, source, patched)


def _alone_around(first: int, last: int, text: str) -> tuple[int, int, int] | None:
    """Return the number and the lines of the statement of a module that contains these lines.

    None if there is none, or another statement is in one of its lines.
    """
    if "\r" in text:  # which may end a line, too
        return None
    spans = _spans(text)
    for number, (begin, end) in enumerate(spans):
        if begin <= first <= last <= end:
            touched = [other for other in spans if other[0] <= end and begin <= other[1]]
            return (number, begin, end) if len(touched) == 1 else None
    return None


@lru_cache(maxsize=16)
def _spans(text: str) -> list[tuple[int, int]]:
    """Return the first and the last line of each statement of a module."""
    return [(_first_line(one), one.end_lineno or one.lineno) for one in _original_tree(text).body]


def _first_line(statement: ast.stmt) -> int:
    decorators: Sequence[ast.expr] = getattr(statement, "decorator_list", ())
    return min((one.lineno for one in decorators), default=statement.lineno)


def _exchanged(file: str, text: str, number: int, new: ast.stmt) -> CodeType | None:
    """Return the code of a file in which the code inside one statement is another.

    None if what the module itself does would differ.
    """
    module, old = _original_code(file, text), _statement_code(file, text, number)
    code = _compiled_alone(new, file, text)
    if _outside(old) != _outside(code):
        return None
    before, after, inner = _inner(old), _inner(code), _inner(module)
    for start in range(len(inner) - len(before) + 1):
        if before and inner[start : start + len(before)] == before:
            inner[start : start + len(before)] = after
            following = iter(inner)
            constants = [
                next(following) if isinstance(one, CodeType) else one for one in module.co_consts
            ]
            return module.replace(co_consts=tuple(constants))
    return None


def _inner(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def _outside(code: CodeType) -> object:
    """Return what code does itself, apart from the functions and classes inside it."""
    constants = ["" if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return code.co_code, code.co_names, constants


@lru_cache(maxsize=16)
def _original_code(file: str, text: str) -> CodeType:
    return _quiet_compile(_original_tree(text), file)


@lru_cache(maxsize=1024)
def _statement_code(file: str, text: str, number: int) -> CodeType:
    return _compiled_alone(_original_tree(text).body[number], file, text)


def _compiled_alone(statement: ast.stmt, file: str, text: str) -> CodeType:
    """Compile a statement of a module, beside the module's imports.

    Python compiles `np.sum(x)` in another way where `np` is imported.
    """
    imports = [one for one in _original_tree(text).body if isinstance(one, _IMPORTS)]
    return _quiet_compile(ast.Module([*imports, statement], []), file)


def _quiet_compile(tree: ast.Module, file: str) -> CodeType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code: CodeType = compile(tree, file, "exec", dont_inherit=True)
    return code


_IMPORTS = ast.Import, ast.ImportFrom


@lru_cache(maxsize=64)
def _original_tree(text: str) -> ast.Module:
    """Return the syntax tree of a file, parsed once for all patches."""
    return quiet_parse(text)


def _same_tree(one: object, other: object, line: int) -> bool:
    """Whether two syntax trees are equal apart from positions.

    Statements of `other` that contain the line are compared first, since a difference is most
    likely there.
    """
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
            pairs = zip(left, right, strict=True)
            pending += sorted(pairs, key=lambda pair: _contains(pair[1], line))
        elif left != right:
            return False
    return True


def _contains(node: object, line: int) -> bool:
    if not isinstance(node, ast.stmt):
        return False
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _count(patch: Patch, sites: Sequence[Site]) -> None:
    if patch.sites in (None, len(sites)) or not patch.hunks:
        return
    listed = "".join(
        f"\n    {site.file}:{site.line} {site.scope or 'module'}: "
        f"{' '.join((site.before or site.after).split())}"
        for site in sites
    )
    problem = message(
        "the page states {stated} sites, but {count} matched:{listed}",
        stated=patch.sites,
        count=len(sites),
        listed=listed,
    )
    remedy = "correct `sites`, or narrow a scope or a pattern until only the intended places match"
    raise HunkError(patch.hunks[0].path, patch.hunks[0].line, problem, remedy)


# ----- showing -----


def lines_of(text: str) -> list[str]:
    """Split into lines as Python and diff do; `str.splitlines` also splits at form feeds."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
