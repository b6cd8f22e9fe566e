"""One side of a hunk: template text, read as Python with metavariables in it.

Python's grammar does the reading, so ``$name`` becomes an identifier that nobody else uses, and
``$...name`` whatever form of it the place allows (``f(*x)``, ``{**x}``, ``def f(x=x)``).
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, islice, product

import libcst as cst

from harness.patch.reader import BOM
from harness.patch.source import Source, parse_source
from harness.patch.tree import Node

_HOLE, _RUN, _GAP = "__hole_", "__run_", "__gap__"
_RUN_FORMS = ("*{0}", "**{0}", "{0}", "{0}={0}")
_MOST_TRIES = 300
"""Forms of all runs of a side that are tried; four runs have 256."""

_IN_SEQUENCES = {"args", "elements", "params", "slice"}
_SIGIL = re.compile(
    r"""
      (?P<skip> \#[^\n]*
        | (?P<quotes>\"{3}|'{3}) (?:\\.|.)*? (?P=quotes)
        | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
    | \$(?P<dots>\.\.\.)?(?P<name>[A-Za-z_]\w*)
    | (?P<stray>\$)
    """,
    re.VERBOSE | re.DOTALL,
)
_ENCODED = re.compile(rf"\*{{0,2}}{_RUN}(\w+?)(?:={_RUN}\1)?\b|{_HOLE}(\w+)|{_GAP}")


TOO_DEEP = "nested too deeply to be read"


class UnreadableSide(Exception):
    """A side that is not Python; carries the page's line, the problem and the remedy."""

    def __init__(self, line: int, problem: str, remedy: str) -> None:
        """Take the page's line, what is wrong with it, and what to do."""
        self.line, self.problem, self.remedy = line, problem, remedy
        super().__init__(problem)


@dataclass(frozen=True, eq=False)
class Side:
    """The before or the after of a hunk."""

    source: Source
    rows: tuple[int, ...]
    """The page's line of each line; a negative number for a line that we put in."""
    holes: dict[str, Node] = field(repr=False)
    """The metavariables (``x``, ``...xs``), each with its first place."""

    @property
    def body(self) -> tuple[Node, ...]:
        """The statements."""
        return self.source.root.block("body")

    @cached_property
    def names(self) -> frozenset[str]:
        """The identifiers; a file without one of them cannot match."""
        names = {
            str(node.value[0])
            for node in self.source.root.walk()
            if node.kind == "Name" and not node.hole
            # another form of the same code may do without the name
            if not any(around.equivalents for around in node.ancestors())
        }
        return frozenset(name for name in names if name != _GAP)

    @cached_property
    def expression(self) -> Node | None:
        """The side as one expression, if it is one."""
        if len(self.body) != 1 or self.body[0].kind != "Expr" or self.body[0].hole:
            return None
        value = self.body[0].parts["value"]
        assert isinstance(value, Node)
        return value

    @cached_property
    def depths(self) -> tuple[tuple[int, str], ...]:
        """For each line, the depth and the indentation of the statement that it belongs to."""
        known: dict[int, tuple[int, str]] = {}
        for node in self.source.root.walk():
            if node.slot in ("body", "clauses", "decorators"):
                depth = sum(each.slot == "body" for each in [node, *node.ancestors()]) - 1
                line = self.source.line_of(node.start)
                known.setdefault(line, (depth, self.source.indent_at(node.start)))
        filled = [(0, "")]
        for line in range(1, len(self.rows) + 1):
            filled.append(known.get(line, filled[-1]))
        return tuple(filled)

    @cached_property
    def inside_strings(self) -> frozenset[int]:
        """The lines that begin inside a text of several lines."""
        inside: set[int] = set()
        for node in self.source.root.walk():
            if node.kind in ("Constant", "JoinedStr", "TemplateStr"):
                first, last = self.source.line_of(node.start), self.source.line_of(node.end)
                inside.update(range(first + 1, last + 1))
        return frozenset(inside)

    def line_of(self, node: Node) -> int:
        """The page's line on which a node begins."""
        return abs(self.rows[self.source.line_of(node.begin) - 1])

    def rows_of(self, start: int, end: int) -> frozenset[int]:
        """The page's lines between two offsets."""
        first, last = self.source.line_of(start), self.source.line_of(max(start, end - 1))
        return frozenset(self.rows[first - 1 : last])

    def text(self) -> str:
        """The code as the page writes it."""
        return _ENCODED.sub(_decoded, self.source.text).rstrip("\n")


def read_side(rows: Sequence[tuple[int, str]], margin: int, sign: str) -> Side:
    """Read one side from its rows (page line, code without the prefix).

    Raises `UnreadableSide`.
    """
    lines = _place_gaps([(number, _cut(code, margin)) for number, code in rows])
    numbers = [number for number, _ in lines]
    text = "".join(f"{code}\n" for _, code in lines)
    pieces, runs = _encode(text, numbers)
    failure: SyntaxError | None = None
    for forms in islice(_forms(len(runs)), _MOST_TRIES):
        names = [form.format(_RUN + run) for form, run in zip(forms, runs, strict=True)]
        code = "".join(a + b for a, b in zip(pieces, [*names, ""], strict=True))
        try:
            side = make_side(*(_with_passes(code, numbers) if sign == "+" else (code, numbers)))
        except SyntaxError as error:
            failure = failure or error
        else:
            _check(side)
            return side
    assert failure is not None
    raise _unreadable(failure, numbers, sign)


def _forms(runs: int) -> Iterator[tuple[str, ...]]:
    """A form for each run: first all the most common, then ever more of them another."""
    for others in range(runs + 1):
        for places in combinations(range(runs), others):
            for chosen in product(_RUN_FORMS[1:], repeat=others):
                forms = dict(zip(places, chosen, strict=True))
                yield tuple(forms.get(run, _RUN_FORMS[0]) for run in range(runs))


def quiet_parse(text: str) -> ast.Module:
    """`ast.parse` without warnings about the code.

    Raises `SyntaxError`, also for null bytes and for what is nested too deeply to be read.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text.removeprefix(BOM))
        except ValueError as error:
            raise SyntaxError(str(error)) from None
        except (RecursionError, MemoryError):  # which of the two depends on what is nested
            raise SyntaxError(TOO_DEEP) from None


def make_side(code: str, rows: Sequence[int]) -> Side:
    """A side from its code, metavariables already encoded. Raises `SyntaxError`."""
    quiet_parse(code)  # for Python's messages, and for what LibCST lets pass
    try:
        source = parse_source(code)
    except cst.ParserSyntaxError as error:
        raise SyntaxError(error.message, ("", error.raw_line, 0, "")) from None
    except RecursionError:  # our own tree has more levels than Python's
        raise SyntaxError(TOO_DEEP) from None
    holes: dict[str, Node] = {}
    for node in source.root.walk():
        node.hole = _hole(node)
        if node.hole and node.hole != "...":
            holes.setdefault(node.hole, node)
    return Side(source, tuple(rows), holes)


def _hole(node: Node) -> str | None:
    """What a node of a pattern stands for: itself (None), an expression, a run or a gap."""
    core = node
    if node.kind in ("StarredElement", "StarredDictElement", "Keyword", "Param", "Expr"):
        part = node.parts.get("keyword") or node.parts.get("name") or node.parts.get("value")
        if not isinstance(part, Node) or part.kind != "Name":
            return None
        core = part
    elif node.kind != "Name":
        return None
    name = str(core.value[0])
    if node.kind == "Expr":
        return "..." if name == _GAP else None
    if name.startswith(_RUN):
        return "..." + name.removeprefix(_RUN)
    if node.kind == "Name" and name.startswith(_HOLE):
        return name.removeprefix(_HOLE)
    return None


# ----- text -----


def _cut(code: str, margin: int) -> str:
    """Remove the margin, or the white space there is."""
    return code[min(margin, len(code) - len(code.lstrip())) :]


def _place_gaps(rows: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Give every gap the indentation of the block that it stands in, however it was written."""
    placed: list[tuple[int, str]] = []
    for i, (number, code) in enumerate(rows):
        if not re.fullmatch(r"\s*\.\.\.\s*(#.*)?", code):
            placed.append((number, code))
            continue
        later = [code for _, code in rows[i + 1 :] if not code.lstrip().startswith(("...", "#"))]
        width = _gap_width(code, [code for _, code in placed], _width(later[0]) if later else 0)
        placed.append((number, " " * width + _GAP))
    return placed


def _gap_width(code: str, earlier: Sequence[str], following: int) -> int:
    earlier = [code for code in earlier if not code.lstrip().startswith("#")]
    if not earlier:
        return following
    last = _width(earlier[-1])
    if re.search(r":\s*(#.*)?$", earlier[-1]):
        return following if following > last else last + 4
    levels = {_width(each) for each in earlier if _width(each) <= last} | {min(following, last)}
    return min(levels, key=lambda level: abs(level - _width(code)))


def _width(code: str) -> int:
    return len(code) - len(code.lstrip())


def _encode(text: str, rows: Sequence[int]) -> tuple[list[str], list[str]]:
    """Replace the metavariables: the text between the runs, and the runs' names."""
    pieces, runs, end = [""], [], 0
    for found in _SIGIL.finditer(text):
        pieces[-1] += text[end : found.start()]
        end = found.end()
        if found["stray"]:
            problem = "`$` is not followed by a name"
            remedy = "write `$name` for an expression, `$...name` for a run of arguments"
            raise UnreadableSide(rows[text.count("\n", 0, end)], problem, remedy)
        if found["skip"]:
            pieces[-1] += found["skip"]
        elif found["dots"]:
            runs.append(found["name"])
            pieces.append("")
        else:
            pieces[-1] += _HOLE + found["name"]
    pieces[-1] += text[end:]
    return pieces, runs


def _decoded(found: re.Match[str]) -> str:
    if found[1]:
        return f"$...{found[1]}"
    return f"${found[2]}" if found[2] else "..."


def _with_passes(code: str, rows: Sequence[int]) -> tuple[str, list[int]]:
    """Put ``pass`` into the blocks that this side leaves empty. Raises `SyntaxError`."""
    lines, numbers = code.split("\n")[:-1], list(rows)
    while True:
        try:
            quiet_parse("\n".join(lines) + "\n")
        except IndentationError as error:
            found = re.search(r"expected an indented block.* on line (\d+)", error.msg)
            if not found:
                raise
            header = int(found[1])
            line = error.lineno or 0
            at = line - 1 if line > header else len(lines)
            lines.insert(at, " " * (_width(lines[header - 1]) + 4) + "pass")
            numbers.insert(at, -numbers[header - 1])
        else:
            return "".join(f"{line}\n" for line in lines), numbers


# ----- errors -----


def _check(side: Side) -> None:
    """Raise where a run or a gap stands for something that it cannot stand for."""
    for node in side.source.root.walk():
        name = str(node.value[0]) if node.kind == "Name" else ""
        around = [node, *node.ancestors()]
        if name == _GAP and not any(each.hole == "..." for each in around[:2]):
            problem = "`...` stands for statements, not for a part of one"
            remedy = "write `$...name` for a run of arguments, `$name` for an expression"
            raise UnreadableSide(side.line_of(node), problem, remedy)
        fits = any(each.hole and each.slot in _IN_SEQUENCES for each in around)
        if name.startswith(_RUN) and not fits:
            problem = f"`$...{name.removeprefix(_RUN)}` stands where no run of arguments fits"
            remedy = "write `$name` for one expression, a line `...` for any statements"
            raise UnreadableSide(side.line_of(node), problem, remedy)


def _unreadable(error: SyntaxError, rows: Sequence[int], sign: str) -> UnreadableSide:
    line = rows[min(max(error.lineno or 1, 1), len(rows)) - 1] if rows else 0
    message = _ENCODED.sub(_decoded, error.msg)
    remedy = "both the context with the `-` lines and the context with the `+` lines must be Python"
    text = (error.text or "").strip()
    if "expected an indented block" in error.msg:
        remedy = "write a line `...` where the statements of this block stand"
    elif isinstance(error, IndentationError):
        remedy = "if a line moves to another depth, write it once as `-` and once as `+`"
    elif re.match(r"(elif|else|except|finally|case)\b", text):
        remedy = "write the whole statement, from its `if`, `try` or `match`, with `...` as bodies"
    elif text.startswith("@"):
        remedy = "write the `def` below the decorator, with `...` as its body"
    return UnreadableSide(line, f"the {sign} side is not Python: {message}", remedy)
