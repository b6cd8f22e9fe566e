"""A draft of a patch from an upstream fix: a unified diff, reversed.

What the fix removed is what the break writes again. Each group of changed lines becomes a hunk,
with as many lines of context as it takes to make both sides whole statements.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import product
from pathlib import Path, PurePosixPath

from harness.check.template import DraftHunk
from harness.core import read_text
from harness.core.errors import PageError, UsageError
from harness.core.message import Message, lines, message
from harness.patch.side import quiet_parse

LARGEST = 1_000_000
"""The number of bytes of a diff that is read."""

_HEADER = re.compile(r"@@ -\d+(?:,(\d{1,9}))? \+\d+(?:,(\d{1,9}))? @@ ?(.*)")
_BINARY = re.compile(r"Binary files|GIT binary")
_DEFINITION = re.compile(r"(\s*)(?:async\s+)?(?:def|class)\s+(\w+)")
_TESTS = re.compile(r"(^|/)(tests?|testing)/|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$")
_FORWARD = ("forward", "setup_context", "compute")
_COTANGENT = re.compile(r"g|ct|dout|grad_outputs?|grad_out|out_grad|upstream\w*|cotangent\w*")

_GIT = "write the diff with `git diff`, or save the `.diff` of a commit or a pull request"


@dataclass(frozen=True)
class Fix:
    """A fix as the hunks of a break, and what is not in them."""

    hunks: tuple[DraftHunk, ...]
    left_out: tuple[Message, ...]


@dataclass
class _Change:
    """A hunk of a diff: its rows, reversed, and the definition that its header names."""

    path: Path
    line: int
    heading: str
    rows: list[str] = field(default_factory=list)


def read_fix(path: Path, *, as_operator: bool) -> Fix:
    """Return what a fix becomes in the page of a break, or of an operator.

    Raises EnvironmentProblem for a file that cannot be read, PageError for one that is not a
    unified diff, and UsageError if nothing in it can be used.
    """
    hunks: list[DraftHunk] = []
    left_out: dict[str, Message] = {}
    for change in _changes(path, left_out):
        for hunk in _hunks(change, left_out):
            hunks.append(_as_operator(hunk) if as_operator else hunk)
    if not hunks:
        problem = message("nothing in {file} can be reversed", file=path)
        raise UsageError(lines([problem, *left_out.values()]), "write the patch in the page")
    return Fix(tuple(dict.fromkeys(hunks)), tuple(left_out.values()))


# ----- Reading the diff -----


def _changes(path: Path, left_out: dict[str, Message]) -> Iterator[_Change]:
    """Yield the hunks of Python files that are not tests."""
    rows = read_text(path, LARGEST).splitlines()
    old = new = ""
    number = found = 0
    while number < len(rows):
        row, number = rows[number].rstrip("\r"), number + 1
        if row.startswith("--- "):
            old = _name(row)
        elif row.startswith("+++ "):
            new = _name(row)
        elif row.startswith("@@@ "):
            remedy = "compare with one parent: `git diff MERGE^1 MERGE`"
            raise PageError(str(path), number, "this is the combined diff of a merge", remedy)
        elif _BINARY.match(row):
            left_out[row] = message("{file}:{line}: a binary file", file=path, line=number)
        elif header := _HEADER.match(row):
            found += 1
            change = _Change(path, number, header[3])
            number = _read_rows(path, rows, number, header, change)
            if reason := _unfit(old, new):
                left_out[new or old] = reason
            else:
                yield change
    if not found and not left_out:
        problem = message("it is not a unified diff: it has no hunk `@@ -1,2 +1,3 @@`")
        raise PageError(str(path), 1, problem, _GIT)


def _name(row: str) -> str:
    """Return the file that a row `--- a/ops.py` names; empty for none."""
    name = row[4:].partition("\t")[0].strip().strip('"')
    return "" if name == "/dev/null" else re.sub(r"^[abciow]/", "", name)


def _read_rows(
    path: Path, rows: Sequence[str], number: int, header: re.Match[str], change: _Change
) -> int:
    """Read a hunk of the length in its header; return the position after it."""
    missing = {"-": int(header[1] or 1), "+": int(header[2] or 1)}
    while any(missing.values()):
        row = rows[number].rstrip("\r") if number < len(rows) else None
        sign = (row or " ")[0]
        if row is None or sign not in " -+\\":
            problem = message("the hunk of line {line} is not complete", line=change.line)
            raise PageError(str(path), min(number + 1, len(rows)), problem, _GIT)
        number += 1
        if sign != "\\":
            for side in "-+" if sign == " " else sign:
                missing[side] -= 1
            change.rows.append({"-": "+", "+": "-"}.get(sign, " ") + row[1:])
    for start, end in list(_groups(change.rows)):  # what the page looks for comes first
        change.rows[start:end] = sorted(change.rows[start:end], key=lambda row: row[0] == "+")
    return number


def _unfit(old: str, new: str) -> Message | None:
    """Return why a file is not used; None if it is."""
    file = new or old
    if PurePosixPath(file).suffix != ".py":
        return message("{file} is not Python", file=file)
    if _TESTS.search(file):
        return message("{file} is a test", file=file)
    if not (old and new):
        return message("{file} is a file that the fix adds or removes", file=file)
    return None


# ----- From rows to hunks -----


def _hunks(change: _Change, left_out: dict[str, Message]) -> Iterator[DraftHunk]:
    """Yield a hunk for each group of changed rows."""
    rows, covered, place = change.rows, 0, f"{change.path}:{change.line}"
    bounds = _bounds(rows)
    for start, end in _groups(rows):
        if start < covered:  # in the context of the group before
            continue
        windows = _windows(bounds, start, end)
        window = next((one for one in windows if _is_whole(rows[slice(*one)])), None)
        if window is None:
            left_out[place] = message(
                "{place}: the diff shows only a part of a statement; `git diff -U20` shows more",
                place=place,
            )
            continue
        covered = window[1]
        chosen = rows[slice(*window)]
        if _changes_code(chosen):
            yield DraftHunk(_scope(change, window[0], _margin(chosen)), rows=_dedented(chosen))
        else:
            left_out.setdefault(
                place, message("{place}: only comments or imports change", place=place)
            )


def _groups(rows: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of each run of changed rows."""
    start: int | None = None
    for number, row in enumerate([*rows, " "]):
        if row[0] != " ":
            start = number if start is None else start
        elif start is not None:
            yield start, number
            start = None


def _bounds(rows: Sequence[str]) -> list[int]:
    """Return the positions that cut neither a group nor, as far as a line shows, a statement."""
    inside = {bound for start, end in _groups(rows) for bound in range(start + 1, end)}
    return [n for n in range(len(rows) + 1) if n not in inside and _is_between(rows, n)]


def _windows(bounds: Sequence[int], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of what contains a group, the narrowest first."""
    ends = [bound for bound in bounds if bound >= end]
    by_start = [product([bound], ends) for bound in reversed(bounds) if bound <= start]
    yield from merge(*by_start, key=lambda window: window[1] - window[0])


def _sides(rows: Sequence[str]) -> tuple[str, str]:
    """Return the code before and after, dedented by the same amount."""
    rows = _dedented(rows)
    before, after = ("\n".join(r[1:] for r in rows if r[0] in f" {sign}") for sign in "-+")
    return before, after


def _margin(rows: Sequence[str]) -> int:
    codes = [row[1:] for row in rows if row[1:].strip()]
    return min((len(code) - len(code.lstrip()) for code in codes), default=0)


def _dedented(rows: Sequence[str]) -> tuple[str, ...]:
    margin = _margin(rows)
    return tuple(row[0] + row[1 + margin :] for row in rows if row[1:].strip())


_OPEN = re.compile(r"(.*[-(\[{,\\+*/@%=<>&|^]|(.*\W)?(and|or|not))\s*(#.*)?")
"""Code that the next line continues."""
_CONTINUES = re.compile(r"\s*([-)\]}+*/%.,=<>&|^]|@\s|(and|or)\b)")
"""Code that continues the line before it."""


def _is_between(rows: Sequence[str], bound: int) -> bool:
    """Whether, on both sides, no line before this position continues behind it."""
    for sign in "-+":
        before, after = (
            (row[1:] for row in part if row[0] in f" {sign}" and row[1:].strip())
            for part in (reversed(rows[:bound]), rows[bound:])
        )
        if _OPEN.fullmatch(next(before, "")) or _CONTINUES.match(next(after, "")):
            return False
    return True


def _is_whole(rows: Sequence[str]) -> bool:
    """Whether both sides of these rows are whole statements, and there is code to look for."""
    try:
        before, _ = map(quiet_parse, _sides(rows))
    except SyntaxError:
        return False
    return bool(before.body)


def _changes_code(rows: Sequence[str]) -> bool:
    before, after = (quiet_parse(side).body for side in _sides(rows))
    one, other = ([ast.dump(statement) for statement in side] for side in (before, after))
    changed = [s for s in before if ast.dump(s) not in other]
    changed += [s for s in after if ast.dump(s) not in one]
    return one != other and not all(isinstance(s, ast.Import | ast.ImportFrom) for s in changed)


def _scope(change: _Change, first: int, margin: int) -> str:
    """Return the definitions around a row, as far as the diff shows them."""
    names: list[str] = []
    for row in [*reversed(change.rows[:first]), f" {change.heading}"]:
        found = _DEFINITION.match(row[1:])
        if found and row[0] != "+" and len(found[1]) < margin:
            names.insert(0, found[2])
            margin = len(found[1])
    return ".".join(names)


# ----- An operator: the names become wildcards -----


def _as_operator(hunk: DraftHunk) -> DraftHunk:
    """Return a hunk for any rule, whatever names the code gives its arrays."""
    before = _sides(hunk.rows)[0]
    side = "forward" if hunk.scope.rpartition(".")[2] in _FORWARD else "backward"
    wildcards = {
        name: "$cotangent" if _COTANGENT.fullmatch(name) else f"${name}"
        for name in _variables(quiet_parse(before))
    }
    rows = [row[0] + _replaced(row[1:], wildcards) for row in hunk.rows]
    return DraftHunk(f"rule.{side}", rows=tuple(rows))


def _variables(tree: ast.Module) -> list[str]:
    """Return the names that are not called, and are neither modules nor the context of a rule."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    kept = {"ctx", "self", "cls", "np", "numpy", "jnp", "jax", "torch", "math", "F"}
    kept |= {function.id for function in calls if isinstance(function, ast.Name)}
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return [name for name in dict.fromkeys(names) if name not in kept]


def _replaced(code: str, wildcards: Mapping[str, str]) -> str:
    """Return a row of code in which names, but not attributes or keywords, are wildcards."""

    def wildcard(found: re.Match[str]) -> str:
        before, after = code[: found.start()].rstrip(), code[found.end() :].lstrip()
        is_keyword = before.endswith(("(", ",")) and re.match(r"=[^=]", after)
        return found[0] if before.endswith(".") or is_keyword else wildcards.get(found[0], found[0])

    return re.sub(r"\b[A-Za-z_]\w*", wildcard, code)
