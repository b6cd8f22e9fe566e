"""Knowing whether a site was executed: the patched code compiled with a call at each site.

The call `marker(i)` goes into the syntax tree, not into the text, so positions and tracebacks stay
those of the patched text. It returns something true and must be found as a global or a builtin.

    an expression          marked before it is evaluated: ``E if marker(i) else None``
    statements             marked before the first new one
    a deletion             marked before the statement behind it, else after the one in front
    a ``def`` or its header, defaults, decorators      at the start of its body
    a ``class``                                        at the start of its methods
    targets, patterns, f-strings, annotations          before the statement around them
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType

from harness.patch.patched import Site
from harness.patch.reader import BOM
from harness.patch.source import line_starts

_Function = ast.FunctionDef | ast.AsyncFunctionDef
# What an expression cannot be wrapped in: its parts are read at compile time, or not as they stand.
_OPAQUE = tuple(
    getattr(ast, name)
    for name in ("JoinedStr", "TemplateStr", "pattern", "TypeAlias", "type_param")
    if hasattr(ast, name)
)
_NOWHERE = ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)


@dataclass(frozen=True, eq=False)
class _Place:
    """A statement, the list that it stands in, and what it is nested in."""

    statement: ast.stmt
    block: list[ast.stmt]
    start: int
    begin: int
    """As `start`, decorators included."""
    end: int


def compile_marked(
    text: str, filename: str, sites: Sequence[tuple[int, Site]], marker: str
) -> CodeType:
    """Compile the patched text with `marker(i)` run whenever site number `i` is executed.

    `sites` are the sites of this file with their numbers. Raises `SyntaxError` as `compile` does,
    and `ValueError` for a marker that Python would mangle inside a class.
    """
    if not marker.isidentifier() or (marker.startswith("__") and not marker.endswith("__")):
        raise ValueError(f"{marker!r} is not a name that means the same everywhere")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text.removeprefix(BOM), filename)
        marking = _Marking(tree, text, marker)
        for number, site in sites:
            marking.mark(number, site)
        return compile(marking.finished(), filename, "exec", dont_inherit=True)


class _Marking:
    """Collects the marks of one module, then puts them all in."""

    def __init__(self, tree: ast.Module, text: str, marker: str) -> None:
        self.tree, self.marker = tree, marker
        first = len(BOM.encode()) if text.startswith(BOM) else 0
        self.starts = [first, *line_starts(text.encode())[1:]]
        self.places = sorted(self._places(tree), key=lambda place: (place.start, -place.end))
        self.wrapped: dict[ast.expr, int] = {}
        self.inserted: list[tuple[list[ast.stmt], int, int]] = []

    def mark(self, number: int, site: Site) -> None:
        """Find the place for a site's mark."""
        if site.kind == "expression":
            self._mark_expression(number, site)
        elif site.after.strip():
            self._mark_statements(number, site)
        else:
            self._mark_deletion(number, site)

    def finished(self) -> ast.Module:
        """The tree with all marks."""
        for block, index, number in sorted(self.inserted, key=lambda each: -each[1]):
            beside = block[min(index, len(block) - 1)] if block else _NOWHERE
            block.insert(index, ast.copy_location(ast.Expr(self._call(number, beside)), beside))
        _Wrapper(self).visit(self.tree)
        return self.tree

    # ----- one site -----

    def _mark_expression(self, number: int, site: Site) -> None:
        around = [place for place in self.places if place.begin <= site.start <= place.end]
        place = next(place for place in reversed(around) if site.end <= place.end)
        node = self._wrappable(place.statement, site)
        if isinstance(place.statement, _Function | ast.ClassDef):
            self._mark_before(number, place)
        elif node is None or place.block.index(place.statement) < _preamble(place.block):
            self._insert(number, place.block, place.block.index(place.statement))
        else:
            self.wrapped[node] = number

    def _wrappable(self, statement: ast.stmt, site: Site) -> ast.expr | None:
        """The outermost expression inside a site, unless the tree does not allow a wrapping."""
        pending: list[ast.AST] = [statement]
        while pending:
            node = pending.pop()
            if isinstance(node, ast.expr):
                start, end = self._span(node)
                if site.start <= start and end <= site.end:
                    return node if isinstance(getattr(node, "ctx", None), ast.Load | None) else None
                if end <= site.start or site.end <= start:
                    continue
            if isinstance(node, _OPAQUE):
                continue
            for name, child in ast.iter_fields(node):
                if not (name == "annotation" and isinstance(node, ast.AnnAssign)):
                    children = child if isinstance(child, list) else [child]
                    pending += [each for each in children if isinstance(each, ast.AST)]
        return None

    def _mark_statements(self, number: int, site: Site) -> None:
        inside = [place for place in self.places if site.start <= place.start < site.end]
        behind = [place for place in self.places if place.start >= site.end]
        if inside:
            self._mark_before(number, inside[0])
        elif site.after.lstrip().startswith("@"):
            self._mark_before(number, behind[0])
        elif site.after.lstrip().startswith("case"):
            around = [p for p in self.places if p.start < site.start and site.end < p.end]
            matching = [p for p in around if isinstance(p.statement, ast.Match)]
            self._mark_before(number, matching[-1])
        else:
            handler = self._handler(site)
            if handler is not None and handler.type is not None:
                self.wrapped[handler.type] = number
            else:
                self._insert(number, behind[0].block, behind[0].block.index(behind[0].statement))

    def _handler(self, site: Site) -> ast.ExceptHandler | None:
        """The ``except`` clause that begins where the site does."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ExceptHandler) and self._offset(node) == site.start:
                return node
        return None

    def _mark_deletion(self, number: int, site: Site) -> None:
        place = next((place for place in self.places if place.start == site.anchor), None)
        if place is None:
            self._insert(number, self.tree.body, len(self.tree.body))
        elif site.kind == "header":
            self._mark_before(number, place)
        else:
            index = place.block.index(place.statement) + site.anchor_before
            self._insert(number, place.block, index)

    def _mark_before(self, number: int, place: _Place) -> None:
        """Mark a statement; a definition where it is called, not where it is made."""
        statement = place.statement
        methods = [statement]
        if isinstance(statement, ast.ClassDef):
            methods = [each for each in statement.body if isinstance(each, _Function)]
        functions = [each for each in methods if isinstance(each, _Function)]
        for function in functions:
            self._insert(number, function.body, 0)
        if not functions:
            self._insert(number, place.block, place.block.index(statement))

    def _insert(self, number: int, block: list[ast.stmt], index: int) -> None:
        self.inserted.append((block, max(index, _preamble(block)), number))

    # ----- positions and new nodes -----

    def _places(self, node: ast.AST) -> Iterator[_Place]:
        for _, children in ast.iter_fields(node):
            if not isinstance(children, list):
                continue
            for child in children:
                if isinstance(child, ast.stmt):
                    start, end = self._span(child)
                    decorators = getattr(child, "decorator_list", [])
                    begin = min([start, *(self._offset(each) for each in decorators)])
                    yield _Place(child, children, start, begin, end)
                if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                    yield from self._places(child)

    def _offset(self, node: ast.expr | ast.stmt | ast.ExceptHandler) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._offset(node), self.starts[node.end_lineno - 1] + node.end_col_offset

    def _call(self, number: int, beside: ast.AST) -> ast.Call:
        """``marker(number)``, at the position of another node."""
        call = ast.Call(ast.Name(self.marker, ast.Load()), [ast.Constant(number)], [])
        for node in (call, call.func, *call.args):
            ast.copy_location(node, beside)
        return call

    def wrap(self, node: ast.expr, number: int) -> ast.expr:
        """``node if marker(number) else None``, at the position of `node`."""
        nothing = ast.copy_location(ast.Constant(None), node)
        return ast.copy_location(ast.IfExp(self._call(number, node), node, nothing), node)


class _Wrapper(ast.NodeTransformer):
    """Puts each wrapped expression in the place of the bare one."""

    def __init__(self, marking: _Marking) -> None:
        self.marking = marking

    def visit(self, node: ast.AST) -> ast.AST:
        """Wrap a node after what is in it."""
        self.generic_visit(node)
        number = self.marking.wrapped.get(node) if isinstance(node, ast.expr) else None
        if number is None or not isinstance(node, ast.expr):
            return node
        return self.marking.wrap(node, number)


def _preamble(block: Sequence[ast.stmt]) -> int:
    """How many statements have to stay first: a docstring, and imports from the future."""
    count = 0
    for statement in block:
        match statement:
            case ast.Expr(ast.Constant(str())) if count == 0:
                count += 1
            case ast.ImportFrom("__future__"):
                count += 1
            case _:
                break
    return count
