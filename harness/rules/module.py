"""A file as the search for rules sees it: definitions by scope, imports, calls and cotangents."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.core.site import line_starts
from harness.patch.side import quiet_parse

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
"""A function with a name."""
AnyFunction = FunctionNode | ast.Lambda

SAME_NUMBERS = frozenset(
    ("contiguous", "clone", "copy", "detach", "to", "type", "type_as", "float", "double", "half")
) | frozenset(("bfloat16", "astype", "view", "reshape", "flatten", "data"))
"""Attributes of a cotangent that have the same numbers."""

_ARRAYS = frozenset(("asarray", "array", "ascontiguousarray"))
"""Functions of a module of arrays that return the same numbers."""


@dataclass(frozen=True, eq=False)
class Definition:
    """A function or class, with the names of what it is defined in."""

    node: FunctionNode | ast.ClassDef
    scope: tuple[str, ...]

    @property
    def path(self) -> tuple[str, ...]:
        """Its dotted name in the module, as a tuple."""
        return (*self.scope, self.node.name)


class Module:
    """A file's syntax tree.

    Raises SyntaxError for a text that is not Python.
    """

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text
        self.tree = quiet_parse(text)
        self.definitions = list(_definitions(self.tree, ()))
        self._lines = line_starts(text.encode())

    def offset(self, node: ast.expr | ast.stmt) -> int:
        """Return the offset of a node in bytes."""
        return self._lines[node.lineno - 1] + node.col_offset

    @cached_property
    def imports(self) -> dict[str, str]:
        """The dotted names that names are imported as."""
        names: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name if alias.asname else alias.name.partition(".")[0]
                    names[alias.asname or top] = top
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    names[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
        return names

    def resolved(self, node: ast.expr) -> str:
        """Return the dotted name that an expression means; empty if it is none."""
        if isinstance(node, ast.Call):  # `partial(custom_vjp, ...)`, `custom_op("name")`
            inner = node.args[0] if node.args and _last(node.func) == "partial" else node.func
            return self.resolved(inner)
        text = dotted(node)
        head, dot, rest = text.partition(".")
        return self.imports.get(head, head) + dot + rest

    def function(self, name: str, scope: Sequence[str]) -> Definition | None:
        """Return the function that a name means in a scope."""
        paths = ((*scope[:depth], name) for depth in range(len(scope), -1, -1))
        return next((self._functions[path] for path in paths if path in self._functions), None)

    @cached_property
    def _functions(self) -> dict[tuple[str, ...], Definition]:
        """The functions by their paths; of several with the same path, the first."""
        functions = [one for one in self.definitions if isinstance(one.node, FunctionNode)]
        return {one.path: one for one in reversed(functions)}

    @cached_property
    def all_calls(self) -> list[tuple[AnyFunction | None, tuple[str, ...], ast.Call]]:
        """Every call, with the function and the definitions that it is in."""
        return list(_calls(self.tree, None, ()))

    @cached_property
    def calls(self) -> dict[AnyFunction | None, list[tuple[Definition, ast.Call]]]:
        """The functions of this file that each function calls; None is the module itself."""
        calls: defaultdict[AnyFunction | None, list[tuple[Definition, ast.Call]]]
        calls = defaultdict(list)
        for owner, scope, call in self.all_calls:
            if called := self._called(call.func, scope):
                calls[owner].append((called, call))
        return dict(calls)

    def _called(self, function: ast.expr, scope: tuple[str, ...]) -> Definition | None:
        if isinstance(function, ast.Name):
            return self.function(function.id, scope)
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            owner = function.value.id
            for depth in range(len(scope), 0, -1):  # `self.f`, `cls.f`, `Rule.f`
                if owner in ("self", "cls", scope[depth - 1]):
                    found = self.function(function.attr, scope[:depth])
                    if found is not None and found.scope == scope[:depth]:
                        return found
        return None


def _definitions(node: ast.AST, scope: tuple[str, ...]) -> Iterator[Definition]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FunctionNode | ast.ClassDef):
            definition = Definition(child, scope)
            yield definition
            yield from _definitions(child, definition.path)
        else:
            yield from _definitions(child, scope)


def _calls(
    node: ast.AST, owner: AnyFunction | None, scope: tuple[str, ...]
) -> Iterator[tuple[AnyFunction | None, tuple[str, ...], ast.Call]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield owner, scope, child
        if isinstance(child, FunctionNode):
            yield from _calls(child, child, (*scope, child.name))
        elif isinstance(child, ast.ClassDef):
            yield from _calls(child, owner, (*scope, child.name))
        else:
            yield from _calls(child, owner, scope)


def dotted(node: ast.expr) -> str:
    """Return an expression if it is a dotted name; else an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def _last(node: ast.expr) -> str:
    return dotted(node).rpartition(".")[2]


def parameters(function: AnyFunction) -> list[str]:
    """Return the names of the positional parameters."""
    arguments = function.args
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args)]


# ----- Cotangents -----


def with_derived(function: AnyFunction, cotangents: Sequence[str]) -> tuple[str, ...]:
    """Return the cotangents of a function, and the names that hold the same numbers in it."""
    known = dict.fromkeys(cotangents)
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            for target, value in _pairs(node.targets[0], node.value):
                if isinstance(target, ast.Name) and is_cotangent(value, known):
                    known[target.id] = None
    return tuple(known)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what an assignment assigns to each name; `(g,) = grads` takes the first element."""
    if not isinstance(target, ast.Tuple | ast.List):
        yield target, value
    elif isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        for number, element in enumerate(target.elts):
            yield element, ast.Subscript(value, ast.Constant(number), ast.Load())


def is_cotangent(node: ast.expr, known: dict[str, None]) -> bool:
    """Whether an expression has the numbers of a cotangent."""
    if ast.unparse(node) in known:
        return True
    if isinstance(node, ast.Call):
        name = _last(node.func)
        if isinstance(node.func, ast.Attribute) and name in SAME_NUMBERS:
            return is_cotangent(node.func.value, known)
        return name in _ARRAYS and bool(node.args) and is_cotangent(node.args[0], known)
    if isinstance(node, ast.Attribute) and node.attr in SAME_NUMBERS:
        return is_cotangent(node.value, known)
    return isinstance(node, ast.IfExp) and is_cotangent(node.body, known)


def passed_on(call: ast.Call, function: FunctionNode, known: Sequence[str]) -> tuple[str, ...]:
    """Return the parameters of a function to which a call passes a cotangent."""
    table, names = dict.fromkeys(known), parameters(function)
    if names[:1] in (["self"], ["cls"]) and isinstance(call.func, ast.Attribute):
        names = names[1:]
    positional = zip(names, call.args, strict=False)
    keywords = ((item.arg, item.value) for item in call.keywords if item.arg in names)
    return tuple(
        name for name, value in (*positional, *keywords) if name and is_cotangent(value, table)
    )
