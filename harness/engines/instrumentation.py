"""Instrumenting an engine's code: marks at the sites of a patch, and records of calls around them.

Calls of hooks are inserted into the syntax tree, not the text, so positions and tracebacks stay
those of the text. The hooks must be available as globals or builtins. `marker(i)` records that site
`i` is executed, and returns a true value:

    an expression          marked before it is evaluated: ``E if marker(i) else None``
    statements             marked before the first new one
    a deletion             marked before the following statement, else after the preceding one
    a ``def`` or its header, defaults, decorators      at the start of its body
    a ``class``                                        at the start of its methods
    targets, patterns, f-strings, annotations          before the statement around them

With the other hooks, what changed functions receive, return and write is recorded too. Around the
body of each function with a site, and of those that it defines, the tree gets
``with call(NAME, locals()):``, and each value that it returns goes through ``value(v)``. A lambda
becomes ``value(E, call(NAME, locals()))``, whose call is opened before `E` is evaluated and closed
after it. Both are functions of `harness.runs.recorder`. The name of a function is its dotted name,
with a slash before a function inside another.

With `part`, the values of the expressions that a patch changes are recorded: see
`harness.engines.changed_parts`.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, TypeVar

from harness.core.site import BOM, Hooks, Site, line_starts

if TYPE_CHECKING:
    from harness.engines.changed_parts import ChangedPart

INSIDE = "/"
"""Separates the name of a function from the name of a function that it defines."""

_FunctionDef = ast.FunctionDef | ast.AsyncFunctionDef
_NamedFunction = tuple[_FunctionDef | ast.Lambda, str]

AnyNode = TypeVar("AnyNode", bound=ast.AST)

# Expressions inside these nodes cannot be wrapped: their parts are evaluated at compile time, or
# are not ordinary expressions.
_OPAQUE = tuple(
    getattr(ast, name)
    for name in ("JoinedStr", "TemplateStr", "pattern", "TypeAlias", "type_param")
    if hasattr(ast, name)
)
_NOWHERE = ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)


@dataclass(frozen=True, eq=False)
class _StatementSpan:
    """A statement, the block that contains it, and its span."""

    statement: ast.stmt
    block: list[ast.stmt]
    start: int
    begin: int
    """The start, decorators included."""
    end: int


def compile_marked(
    text: str, filename: str, sites: Sequence[tuple[int, Site]], hooks: Hooks
) -> CodeType:
    """Compile a file's text with instrumented sites; `sites` holds the numbered sites of the file.

    Raises `SyntaxError` as `compile` does, and `ValueError` for a hook name that is not an
    identifier, or that Python would mangle inside a class.
    """
    for name in filter(None, (hooks.marker, hooks.call, hooks.value, hooks.locals, hooks.part)):
        if not name.isidentifier() or (name.startswith("__") and not name.endswith("__")):
            raise ValueError(
                f"the hook name {name!r} is not an identifier, or would be mangled inside a class"
            )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text.removeprefix(BOM), filename)
        if sites:
            marking = _Marking(tree, text, hooks)
            parts = _Parts(hooks)
            for number, site in sites:
                marking.mark(number, site)
                if hooks.part:
                    from harness.engines.changed_parts import changed_parts  # in children only

                    parts.add(number, changed_parts(tree, text.encode(), site))
            tree = marking.finished()
            parts.record(tree)
            if hooks.call:
                _record_calls(marking, [site for _, site in sites])
        return compile(tree, filename, "exec", dont_inherit=True)


class _Marking:
    """Collects the marks of one module, then inserts them all."""

    def __init__(self, tree: ast.Module, text: str, hooks: Hooks) -> None:
        self.tree, self.hooks = tree, hooks
        first = len(BOM.encode()) if text.startswith(BOM) else 0
        self.starts = [first, *line_starts(text.encode())[1:]]
        self.places = sorted(self._places(tree), key=lambda place: (place.start, -place.end))
        self.wrapped: dict[ast.expr, int] = {}
        self.inserted: list[tuple[list[ast.stmt], int, int]] = []

    def mark(self, number: int, site: Site) -> None:
        """Determine the place of a site's mark."""
        if site.kind == "expression":
            self._mark_expression(number, site)
        elif site.after.strip():
            self._mark_statements(number, site)
        else:
            self._mark_deletion(number, site)

    def finished(self) -> ast.Module:
        """The tree with all marks."""
        for block, index, number in sorted(self.inserted, key=lambda mark: -mark[1]):
            beside = block[min(index, len(block) - 1)] if block else _NOWHERE
            block.insert(index, _placed(beside, ast.Expr(self._mark(number))))
        recorded = [self._offset(node) for node in self.wrapped]
        for place in self.places:
            outermost = place.block is self.tree.body
            if outermost and any(place.begin <= offset < place.end for offset in recorded):
                _ExpressionMarker(self).visit(place.statement)
        return self.tree

    # ----- one site -----

    def _mark_expression(self, number: int, site: Site) -> None:
        around = [place for place in self.places if place.begin <= site.start <= place.end]
        place = next(place for place in reversed(around) if site.end <= place.end)
        node = self._wrappable(place.statement, site)
        if isinstance(place.statement, _FunctionDef | ast.ClassDef):
            self._mark_before(number, place)
        elif node is None or place.block.index(place.statement) < _preamble(place.block):
            self._insert(number, place.block, place.block.index(place.statement))
        else:
            self.wrapped[node] = number

    def _wrappable(self, statement: ast.stmt, site: Site) -> ast.expr | None:
        """Return the outermost expression inside a site, or None if it cannot be wrapped."""
        pending: list[ast.AST] = [statement]
        while pending:
            node = pending.pop()
            if isinstance(node, ast.expr):
                start, end = self.span(node)
                if site.start <= start and end <= site.end:
                    return node if isinstance(getattr(node, "ctx", None), ast.Load | None) else None
                if end <= site.start or site.end <= start:
                    continue
            if isinstance(node, _OPAQUE):
                continue
            for name, child in ast.iter_fields(node):
                if not (name == "annotation" and isinstance(node, ast.AnnAssign)):
                    children = child if isinstance(child, list) else [child]
                    pending += [item for item in children if isinstance(item, ast.AST)]
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
        """Return the ``except`` clause that begins where the site does."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ExceptHandler) and self._offset(node) == site.start:
                return node
        return None

    def _mark_deletion(self, number: int, site: Site) -> None:
        place = next((place for place in self.places if place.start == site.anchor), None)
        if place is not None and site.kind == "header":
            self._mark_before(number, place)
            return
        block = self.tree.body if place is None else place.block
        index = len(block) if place is None else block.index(place.statement) + site.anchor_before
        self._insert(number, block, index)

    def _mark_before(self, number: int, place: _StatementSpan) -> None:
        """Mark a statement; a definition is marked at its calls, not where it is defined."""
        statement = place.statement
        methods = [statement]
        if isinstance(statement, ast.ClassDef):
            methods = statement.body
        functions = [node for node in methods if isinstance(node, _FunctionDef)]
        for function in functions:
            self._insert(number, function.body, 0)
        if not functions:
            self._insert(number, place.block, place.block.index(statement))

    def _insert(self, number: int, block: list[ast.stmt], index: int) -> None:
        """Call the marker at that index."""
        self.inserted.append((block, max(index, _preamble(block)), number))

    # ----- positions and new nodes -----

    def _places(self, node: ast.AST) -> Iterator[_StatementSpan]:
        for _, children in ast.iter_fields(node):
            if not isinstance(children, list):
                continue
            for child in children:
                if isinstance(child, ast.stmt):
                    start, end = self.span(child)
                    decorators = getattr(child, "decorator_list", [])
                    begin = min([start, *(self._offset(decorator) for decorator in decorators)])
                    yield _StatementSpan(child, children, start, begin, end)
                if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                    yield from self._places(child)

    def _offset(self, node: ast.expr | ast.stmt | ast.ExceptHandler) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return the offsets of a node's start and end."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._offset(node), self.starts[node.end_lineno - 1] + node.end_col_offset

    def _mark(self, number: int) -> ast.Call:
        return _call_of(self.hooks.marker, ast.Constant(number))

    def wrap(self, node: ast.expr, number: int) -> ast.expr:
        """``node if marker(number) else None``, at the position of `node`."""
        chosen = ast.IfExp(self._mark(number), node, ast.Constant(None))
        return _placed(node, chosen)


class _ExpressionMarker(ast.NodeTransformer):
    """Marks each expression that is to be marked."""

    def __init__(self, marking: _Marking) -> None:
        self.marking = marking

    def visit(self, node: ast.AST) -> ast.AST:
        """Wrap a node after its children."""
        self.generic_visit(node)
        if isinstance(node, ast.expr) and node in self.marking.wrapped:
            return self.marking.wrap(node, self.marking.wrapped[node])
        return node


# ----- The expressions that the sites change -----


class _Parts(ast.NodeTransformer):
    """Records the values of changed expressions."""

    def __init__(self, hooks: Hooks) -> None:
        self.hook = hooks.part
        self.texts: dict[ast.expr, tuple[str, ...]] = {}

    def add(self, site: int, parts: Sequence[ChangedPart]) -> None:
        """Record these parts; each has a key of its own, the same in both texts."""
        for number, part in enumerate(parts):
            other = ast.unparse(part.other) if part.other else ""
            key = f"{site}.{number}"
            only = f"{key}.{part.neutral}"
            if part.operand:
                self.texts[part.operand] = (only, ast.unparse(part.operand), "")
            if part.node:
                key = key if part.other else only
                self.texts[part.node] = (key, ast.unparse(part.node), other)

    def record(self, tree: ast.Module) -> None:
        """Insert the calls of the hook."""
        if self.texts:
            self.visit(tree)

    def visit(self, node: ast.AST) -> ast.AST:
        """Wrap a node after its children."""
        self.generic_visit(node)
        if isinstance(node, ast.expr) and node in self.texts:
            texts = map(ast.Constant, self.texts[node])
            return _placed(node, _call_of(self.hook, *texts, node))
        return node


# ----- Calls of the functions around the sites -----


def _record_calls(marking: _Marking, sites: Collection[Site]) -> None:
    """Record the calls of all functions that the sites are in.

    A site in a class, outside its methods, is in all of them; one outside any function and class is
    in all functions of the file.
    """
    functions = list(_outermost(marking.tree, ""))
    for node, name in dict.fromkeys(f for site in sites for f in _around(functions, site, marking)):
        _record(node, name, marking.hooks)


def _outermost(node: ast.AST, prefix: str) -> Iterator[_NamedFunction]:
    """Yield the functions that no other contains, each with its dotted name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _FunctionDef):
            yield child, prefix + child.name
        elif isinstance(child, ast.Lambda):
            yield child, f"{prefix}<lambda>:{child.lineno}"
        else:
            inner = f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix
            yield from _outermost(child, inner)


def _around(
    functions: Collection[_NamedFunction], site: Site, marking: _Marking
) -> list[_NamedFunction]:
    named = [f for f in functions if f"{site.scope}.".startswith(f"{f[1]}.")]
    if named:
        return named
    spans = ((function, *marking.span(function[0])) for function in functions)
    inside = [f for f, start, end in spans if start <= site.start and site.end <= end]
    if inside:
        return inside
    return [f for f in functions if not site.scope or f[1].startswith(f"{site.scope}.")]


def _record(node: _FunctionDef | ast.Lambda, name: str, hooks: Hooks) -> None:
    """Record the calls of a function, and of all functions inside it."""
    children = [*(node.body if isinstance(node, _FunctionDef) else [node.body])]
    for inner, inner_name in _directly_inside(children, name):
        _record(inner, inner_name, hooks)
    call = _call_of(hooks.call, ast.Constant(name), _call_of(hooks.locals))
    if isinstance(node, ast.Lambda):
        node.body = _placed(node.body, _call_of(hooks.value, call, node.body))
        return
    if any(isinstance(part, ast.Yield | ast.YieldFrom) for part in _own_nodes(node.body)):
        return  # a generator is suspended while others run
    for part in list(_own_nodes(node.body)):
        if isinstance(part, ast.Return) and part.value is not None:
            part.value = _placed(part.value, _call_of(hooks.value, ast.Constant(None), part.value))
    body = node.body[_preamble(node.body) :]
    if body:
        block = ast.With([ast.withitem(call)], body)
        node.body[-len(body) :] = [_placed(body[0], block)]


def _directly_inside(nodes: Collection[ast.AST], name: str) -> Iterator[_NamedFunction]:
    """Yield the functions that are inside these nodes, and in no other function there."""
    for part in _own_nodes(nodes):
        if isinstance(part, _FunctionDef):
            yield part, f"{name}{INSIDE}{part.name}"
        elif isinstance(part, ast.Lambda):
            yield part, f"{name}{INSIDE}<lambda>"


def _own_nodes(nodes: Collection[ast.AST]) -> Iterator[ast.AST]:
    """Yield these nodes and their parts, but not what is inside of functions and classes."""
    for node in nodes:
        yield node
        if not isinstance(node, _FunctionDef | ast.Lambda | ast.ClassDef):
            yield from _own_nodes(list(ast.iter_child_nodes(node)))


# ----- New nodes -----


def _call_of(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _placed(place: ast.AST, new: AnyNode) -> AnyNode:
    """Give new nodes, which have no position, that of another node."""
    for node in ast.walk(new):
        if not hasattr(node, "lineno"):
            ast.copy_location(node, place)
    return new


def _preamble(block: Sequence[ast.stmt]) -> int:
    """The number of statements that must stay first: a docstring and `__future__` imports."""
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
