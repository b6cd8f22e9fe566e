"""One side of a hunk: template text, parsed as Python with metavariables.

For Python's parser, ``$name`` becomes a reserved identifier, and ``$...name`` the form of one that
its place allows (``f(*x)``, ``{**x}``, ``def f(x=x)``).
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

from harness.core.errors import Sentence
from harness.core.message import message
from harness.core.site import BOM
from harness.patch.reader import parse_source
from harness.patch.tree import Node, Source

_HOLE, _RUN, _GAP = "__hole_", "__run_", "__gap__"
_RUN_FORMS = ("*{0}", "**{0}", "{0}", "{0}={0}")
_MOST_TRIES = 300
"""Combinations of forms tried for the runs of a side; four runs have 256."""

GAP_LINE = re.compile(r"\s*\.\.\.\s*(#.*)?")
_IN_SEQUENCES = {"args", "elements", "params", "slice", "decorators"}
_WITH_A_PART = {"StarredElement", "StarredDictElement", "Keyword", "Param", "Expr", "Decorator"}
"""What a run may stand for, although it consists of a name and a part beside it, such as `*`."""
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


TOO_DEEP = "nested too deeply to parse"


class UnreadableSide(Exception):
    """A side is not valid Python; has the page's line, the problem and the remedy."""

    def __init__(self, line: int, problem: Sentence, remedy: Sentence) -> None:
        """Take the page's line, the problem and the remedy."""
        self.line, self.problem, self.remedy = line, problem, remedy
        super().__init__(problem)


@dataclass(frozen=True, eq=False)
class Side:
    """The before or the after of a hunk."""

    source: Source
    rows: tuple[int, ...]
    """The page's line of each line; negative for an inserted line."""
    holes: dict[str, Node] = field(repr=False)
    """The metavariables (``x``, ``...xs``), each with its first occurrence."""

    @property
    def body(self) -> tuple[Node, ...]:
        """The statements."""
        return self.source.root.block("body")

    @cached_property
    def names(self) -> frozenset[str]:
        """The identifiers that a file must contain to match."""
        names = {
            str(node.value[0])
            for node in self.source.root.walk()
            if node.kind == "Name" and not node.hole
            # an equivalent form of the same code may not contain the name
            if not any(ancestor.equivalents for ancestor in node.ancestors())
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
        """The depth and indentation of the statement of each line."""
        starts: dict[int, tuple[int, str]] = {}
        for node in self.source.root.walk():
            if node.slot in ("body", "clauses", "decorators"):
                depth = sum(n.slot == "body" for n in [node, *node.ancestors()]) - 1
                line = self.source.line_of(node.start)
                starts.setdefault(line, (depth, self.source.indent_at(node.start)))
        filled = [(0, "")]
        for line in range(1, len(self.rows) + 1):
            filled.append(starts.get(line, filled[-1]))
        return tuple(filled)

    @cached_property
    def inside_strings(self) -> frozenset[int]:
        """The lines that begin inside a multi-line string."""
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

    def rows_of_node(self, node: Node) -> frozenset[int]:
        """The page's lines of a node, its decorators included."""
        return self.rows_of(node.begin, node.end)

    def text(self) -> str:
        """The code as the page writes it."""
        return _ENCODED.sub(_decoded, self.source.text).rstrip("\n")


def read_side(rows: Sequence[tuple[int, str]], margin: int, sign: str) -> Side:
    """Read one side from its rows (page line, code without the prefix).

    Raises `UnreadableSide`.
    """
    cut = [(number, code[min(margin, indent_of(code)) :]) for number, code in rows]
    lines = _place_gaps(cut)
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
    """Yield a form for each run: first the commonest for all, then others for more of them."""
    for others in range(runs + 1):
        for places in combinations(range(runs), others):
            for chosen in product(_RUN_FORMS[1:], repeat=others):
                forms = dict(zip(places, chosen, strict=True))
                yield tuple(forms.get(run, _RUN_FORMS[0]) for run in range(runs))


def quiet_parse(text: str) -> ast.Module:
    """`ast.parse` without warnings about the code.

    Raises `SyntaxError`, also for null bytes and for code that is nested too deeply.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text.removeprefix(BOM))
        except ValueError as error:
            raise SyntaxError(str(error)) from None
        except (RecursionError, MemoryError):  # which one is raised depends on the code
            raise SyntaxError(TOO_DEEP) from None


def make_side(code: str, rows: Sequence[int]) -> Side:
    """Return a side from code with encoded metavariables. Raises `SyntaxError`."""
    quiet_parse(code)  # gives Python's messages, and is stricter than LibCST
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
    """The hole that a node of a pattern is: an expression, a run or a gap; None if it is code."""
    core = node
    if node.kind in _WITH_A_PART:
        parts = map(node.parts.get, ("keyword", "name", "value", "decorator"))
        part = next(filter(None, parts), None)
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


def _place_gaps(rows: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Give every gap the indentation of its block, however it was indented."""
    placed: list[tuple[int, str]] = []
    for i, (number, code) in enumerate(rows):
        if not GAP_LINE.fullmatch(code):
            placed.append((number, code))
            continue
        later = [code for _, code in rows[i + 1 :] if not code.lstrip().startswith(("...", "#"))]
        width = _gap_width(code, [code for _, code in placed], indent_of(later[0]) if later else 0)
        placed.append((number, " " * width + _GAP))
    return placed


def _gap_width(code: str, earlier: Sequence[str], following: int) -> int:
    earlier = [code for code in earlier if not code.lstrip().startswith("#")]
    if not earlier:
        return following
    last = indent_of(earlier[-1])
    if re.search(r":\s*(#.*)?$", earlier[-1]):
        return following if following > last else last + 4
    levels = {indent_of(line) for line in earlier if indent_of(line) <= last} | {
        min(following, last)
    }
    return min(levels, key=lambda level: abs(level - indent_of(code)))


def indent_of(code: str) -> int:
    """Return the number of white-space characters before the code of a line."""
    return len(code) - len(code.lstrip())


def _encode(text: str, rows: Sequence[int]) -> tuple[list[str], list[str]]:
    """Encode the metavariables; return the text between the runs, and the names of the runs."""
    pieces, runs, end = [""], [], 0
    for match in _SIGIL.finditer(text):
        pieces[-1] += text[end : match.start()]
        end = match.end()
        if match["stray"]:
            problem = "`$` is not followed by a name"
            remedy = "write `$name` for an expression, `$...name` for a run of arguments"
            raise UnreadableSide(rows[text.count("\n", 0, end)], problem, remedy)
        if match["skip"]:
            pieces[-1] += match["skip"]
        elif match["dots"]:
            runs.append(match["name"])
            pieces.append("")
        else:
            pieces[-1] += _HOLE + match["name"]
    pieces[-1] += text[end:]
    return pieces, runs


def _decoded(match: re.Match[str]) -> str:
    if match[1]:
        return f"$...{match[1]}"
    return f"${match[2]}" if match[2] else "..."


def _with_passes(code: str, rows: Sequence[int]) -> tuple[str, list[int]]:
    """Insert ``pass`` into blocks that this side leaves empty. Raises `SyntaxError`."""
    lines, numbers = code.split("\n")[:-1], list(rows)
    while True:
        try:
            quiet_parse("\n".join(lines) + "\n")
        except IndentationError as error:
            match = re.search(r"expected an indented block.* on line (\d+)", error.msg)
            if not match:
                raise
            header = int(match[1])
            line = error.lineno or 0
            at = line - 1 if line > header else len(lines)
            lines.insert(at, " " * (indent_of(lines[header - 1]) + 4) + "pass")
            numbers.insert(at, -numbers[header - 1])
        else:
            return "".join(f"{line}\n" for line in lines), numbers


# ----- errors -----


def _check(side: Side) -> None:
    """Raise if a run or a gap is used where it is not allowed."""
    for node in side.source.root.walk():
        if node.kind != "Name":
            continue
        name = str(node.value[0])
        if name != _GAP and not name.startswith(_RUN):
            continue
        nodes = [node, *node.ancestors()]
        if name == _GAP and not any(n.hole == "..." for n in nodes[:2]):
            problem = "`...` stands for whole statements, not for a part of one"
            remedy = "write `$...name` for a run of arguments, `$name` for an expression"
            raise UnreadableSide(side.line_of(node), problem, remedy)
        fits = any(n.hole and n.slot in _IN_SEQUENCES for n in nodes)
        if name.startswith(_RUN) and not fits:
            unfit = message(
                "`$...{name}` is used where a run does not fit", name=name.removeprefix(_RUN)
            )
            remedy = "write `$name` for one expression, a line `...` for any statements"
            raise UnreadableSide(side.line_of(node), unfit, remedy)


def _unreadable(error: SyntaxError, rows: Sequence[int], sign: str) -> UnreadableSide:
    line = rows[min(max(error.lineno or 1, 1), len(rows)) - 1] if rows else 0
    remedy = "the context must be valid Python both with the `-` lines and with the `+` lines"
    text = (error.text or "").strip()
    if "expected an indented block" in error.msg:
        remedy = "write a line `...` for the statements of this block"
    elif isinstance(error, IndentationError):
        remedy = "if the indentation of a line changes, write it once as `-` and once as `+`"
    elif re.match(r"(elif|else|except|finally|case)\b", text):
        remedy = "write the whole statement from its `if`, `try` or `match`, with `...` as bodies"
    elif text.startswith("@"):
        remedy = "write the `def` below the decorator, with `...` as its body"
    problem = message(
        "the {sign} side is not Python: {reason}",
        sign=sign,
        reason=_ENCODED.sub(_decoded, error.msg),
    )
    return UnreadableSide(line, problem, remedy)
