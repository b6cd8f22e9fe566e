"""Merging the clean and the broken version of a file into one text that contains both.

Each place where the versions differ becomes an `if` whose branches are the two versions. Its
condition always has the same value, but no compiler folds it. So a text that behaves like the
clean version and one that behaves like the broken version have the same names, constants and
lines; only the value of the conditions differs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Literal, TypeVar

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Statements = list[ast.stmt]
LiveVersion = Literal["clean", "broken"]
AnyNode = TypeVar("AnyNode", bound=ast.AST)

MakeBranch = Callable[[Statements, Statements, Sequence[str] | None], ast.If]
"""Returns the `if` of the clean and the broken statements, for the parameters that it may use; None
outside all functions."""

BLOCKS = ("body", "orelse", "finalbody")
"""The fields of a statement that hold statements."""


@dataclass(frozen=True)
class Replacement:
    """Lines of the clean text, from `first` up to but excluding `end`, and their replacement."""

    first: int
    end: int
    column: int
    owner: FunctionNode | ast.If
    """A function, whose body replaces the lines; or an `if` outside all functions."""

    @property
    def statements(self) -> Statements:
        """The statements that replace the lines."""
        return self.owner.body if isinstance(self.owner, FunctionNode) else [self.owner]


@dataclass
class Merger:
    """Merges two versions of a file; the conditions come from `branch`."""

    branch: MakeBranch
    fresh: Callable[[], str]
    """Returns a name that the file does not use."""
    changed: list[FunctionNode] = field(default_factory=list)
    """The innermost functions that contain a difference, and the functions inside them."""
    places: list[Replacement] = field(default_factory=list)
    """Where the merged text differs from the clean one; a place may be inside another."""
    _functions: list[tuple[FunctionNode, Replacement]] = field(default_factory=list)

    def merge(self, clean: Statements, broken: Statements) -> Statements:
        """Return the statements of a block, with an `if` where the versions differ."""
        ours, theirs = [ast.dump(node) for node in clean], [ast.dump(node) for node in broken]
        merged: Statements = []
        for kind, i, i_end, j, j_end in SequenceMatcher(None, ours, theirs, False).get_opcodes():
            if kind == "equal":
                merged += clean[i:i_end]
            elif i_end - i == j_end - j:
                for at, other in zip(range(i, i_end), broken[j:j_end], strict=True):
                    one = self._statement(clean[at], other)
                    merged.append(one or self._fork(clean, at, at + 1, [other]))
            else:
                merged.append(self._fork(clean, i, i_end, broken[j:j_end]))
        return merged

    def _fork(self, block: Statements, start: int, end: int, broken: Statements) -> ast.stmt:
        """Return the `if` of the statements `start:end` of a block, and of their replacement."""
        clean = block[start:end]
        for statement in (*clean, *broken):
            self.changed += [node for node in ast.walk(statement) if isinstance(node, FunctionNode)]
        if not self._functions:
            fork = self.branch(clean, broken, None)
            self.places.append(_place(fork, block, start, end))
            return fork
        innermost, place = self._functions[-1]
        if innermost not in self.changed:
            self.changed.append(innermost)
            self.places.append(place)
        return self.branch(clean, broken, readable(innermost))

    def _statement(self, clean: ast.stmt, broken: ast.stmt) -> ast.stmt | None:
        """Return one statement for both; None if they differ in more than the blocks inside."""
        if type(clean) is not type(broken) or _header(clean) != _header(broken):
            return None
        if not isinstance(clean, FunctionNode):
            return self._blocks(clean, broken)
        assert isinstance(broken, FunctionNode)
        if not _agree(clean, broken) or not (
            self._separate(clean, broken) and self._separate(broken, clean)
        ):
            return None
        _take_docstring(clean, broken)
        self._functions.append((clean, _place(clean, clean.body, 0, len(clean.body))))
        self._blocks(clean, broken)
        self._functions.pop()
        return clean

    def _blocks(self, clean: AnyNode, broken: ast.AST) -> AnyNode | None:
        names = [name for name in BLOCKS if hasattr(clean, name)]
        if not names:
            return None
        for name in names:
            setattr(clean, name, self.merge(getattr(clean, name), getattr(broken, name)))
        return clean

    def _separate(self, one: FunctionNode, other: FunctionNode) -> bool:
        """Rename the local variables of `one` that mean something else in `other`.

        Returns False if one of them cannot be renamed.
        """
        elsewhere = {node.id for node in ast.walk(other) if isinstance(node, ast.Name)}
        for name in sorted((bound(one) - bound(other)) & elsewhere):
            if name not in renamable(one):
                return False
            rename(one, {name: self.fresh()})
        return True


def _place(owner: FunctionNode | ast.If, block: Statements, start: int, end: int) -> Replacement:
    """Return the lines of the statements `start:end` of a block, or of the gap before `start`."""
    if start == end:
        beside = block[start - 1] if start else block[0] if block else None
        line = 0 if beside is None else _last(beside) + 1 if start else _first(beside)
        return Replacement(line, line, beside.col_offset if beside else 0, owner)
    return Replacement(
        _first(block[start]), _last(block[end - 1]) + 1, block[start].col_offset, owner
    )


def _first(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _last(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def _header(statement: ast.stmt) -> list[str | None]:
    """Return everything in a statement except its blocks."""
    return [
        ast.dump(item) if isinstance(item, ast.AST) else repr(item)
        for name, value in ast.iter_fields(statement)
        if name not in BLOCKS
        for item in (value if isinstance(value, list) else [value])
    ]


def _agree(one: FunctionNode, other: FunctionNode) -> bool:
    """Whether both functions are generators or neither is, and declare the same outer names."""
    return all(
        any(isinstance(node, kind) for node in own_nodes(one))
        == any(isinstance(node, kind) for node in own_nodes(other))
        for kind in ((ast.Yield, ast.YieldFrom), ast.Await)
    ) and _declared(one) == _declared(other)


def _declared(function: FunctionNode) -> set[str]:
    declarations = (n for n in own_nodes(function) if isinstance(n, ast.Global | ast.Nonlocal))
    return {name for declaration in declarations for name in declaration.names}


def _take_docstring(clean: FunctionNode, broken: FunctionNode) -> None:
    """Let both functions have the docstring of the clean one: it must remain the first line."""
    own = clean.body[: ast.get_docstring(clean) is not None]
    broken.body = [*own, *broken.body[ast.get_docstring(broken) is not None :]]


# ----- Names -----

_SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


def own_nodes(function: FunctionNode) -> Iterator[ast.AST]:
    """Yield the nodes of a function's body, but none from inside a nested scope."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, _SCOPES):
            pending += ast.iter_child_nodes(node)


def parameters(function: FunctionNode) -> list[str]:
    """Return the names of a function's parameters."""
    spec = function.args
    starred = [item for item in (spec.vararg, spec.kwarg) if item]
    return [item.arg for item in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *starred)]


def readable(function: FunctionNode) -> list[str]:
    """Return the parameters of a function that it can always read: it deletes none of them."""
    nodes = ast.walk(function)
    deleted = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del)}
    return [name for name in parameters(function) if name not in deleted]


def bound(function: FunctionNode) -> set[str]:
    """Return the names that a function binds, other than its parameters."""
    names = {
        name for node in ast.walk(function) for name in _bindings(node) if node is not function
    }
    return names - set(parameters(function))


def renamable(function: FunctionNode) -> list[str]:
    """Return the local variables that can be renamed: only plain assignments bind them.

    A name that a nested scope binds too is left out, as is every name if the function may look
    names up by their text.
    """
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    if used & {"locals", "vars", "eval", "exec", "dir"}:
        return []
    own = set(map(id, own_nodes(function)))
    plain: dict[str, None] = {}
    other = set(parameters(function))
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) in own:
            plain[node.id] = None
        elif node is not function:
            other.update(_bindings(node))
    return [name for name in plain if name not in other]


def rename(function: FunctionNode, names: dict[str, str]) -> None:
    """Rename local variables of a function, in the scopes nested in it too."""
    for statement in function.body:  # decorators and default arguments are outside of its scope
        for node in ast.walk(statement):
            if isinstance(node, ast.Name):
                node.id = names.get(node.id, node.id)


def _bindings(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node itself binds or declares."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Global(names=several) | ast.Nonlocal(names=several):
            yield from several
        case ast.alias(name=name, asname=other):
            yield other or name.partition(".")[0]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
