"""Where the learner says that the bug is: a line or a function of the unbroken engine."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from harness.core.errors import UsageError
from harness.core.message import either, message, verbatim
from harness.core.site import Site
from harness.engines.engine import Engine
from harness.learn.events import PlaceFound
from harness.pages.catalogue import nearest

MOST_NAMES = 4
"""The number of functions with the same name to list."""

MOST_DIGITS = 9
"""The most digits of a line; Python refuses to read a number with thousands of them."""


@dataclass(frozen=True)
class Definition:
    """A function or a class of the engine, with its lines."""

    file: str
    name: str
    """Dotted: `Tensor.backward`, `add.vjp`."""
    first: int
    last: int
    is_function: bool


@dataclass(frozen=True)
class Place:
    """A line, or the lines of a function."""

    file: str
    line: int | None
    definition: Definition | None
    """The function, or the innermost definition around the line; None at the top of a module."""


def read_place(text: str, engine: Engine) -> Place:
    """Return the place that `file.py:12`, `function`, `Class.method` or `file.py:function` names.

    Raises UsageError for a place that the engine does not have, or for a name that several
    functions have.
    """
    file, colon, rest = text.strip().rpartition(":")
    if colon and rest.isdecimal():
        return _line(_file(file, engine.sources), rest, engine)
    files = [_file(file, engine.sources)] if colon else list(engine.sources)
    return _function(rest.removesuffix("()"), files, engine)


def judge(place: Place, sites: Iterable[Site], engine: Engine) -> PlaceFound:
    """Return how near the place is to the nearest of the sites of a patch."""
    found: set[PlaceFound] = {_judge(place, site, engine) for site in sites}
    return next((near for near in ("line", "function") if near in found), "no")


def changed_lines(site: Site, engine: Engine) -> range:
    """Return the lines of the unbroken engine that a site replaces.

    If code was only added, these are the lines on both sides.
    """
    text = engine.sources[site.file].encode()
    first = text.count(b"\n", 0, site.origin[0]) + 1
    before = site.before.rstrip()
    if not before:
        return range(first - 1, first + 1)
    return range(first, first + before.count("\n") + 1)


def _judge(place: Place, site: Site, engine: Engine) -> PlaceFound:
    if place.file != site.file:
        return "no"
    if place.line in changed_lines(site, engine):
        return "line"
    if place.definition is None:
        return "no"
    functions = {item.name for item in _definitions(site.file, engine) if item.is_function}
    function = _outermost(site.scope, functions)
    near = function and function == _outermost(place.definition.name, functions)
    return "function" if near else "no"


def _outermost(scope: str, functions: Collection[str]) -> str:
    """Return the outermost function around a scope, such as `add` around `add.vjp`."""
    names = scope.split(".")
    scopes = (".".join(names[:count]) for count in range(1, len(names) + 1))
    return next((name for name in scopes if name in functions), "")


def _file(name: str, sources: Mapping[str, str]) -> str:
    """Return the only source file whose path ends in this name."""
    fitting = [path for path in sources if f"/{path}".endswith(f"/{name}")]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise _ambiguous(name, fitting)
    files = [path.rpartition("/")[2] for path in sources]
    remedy = message(
        "{question}name a file of the engine, such as {file}",
        question=nearest(name, files),
        file=files[0],
    )
    raise UsageError(message("the engine has no file `{file}`", file=name), remedy)


def _line(file: str, digits: str, engine: Engine) -> Place:
    lines = engine.sources[file].count("\n")
    line = int(digits) if len(digits) <= MOST_DIGITS else 0
    if not 1 <= line <= lines:
        problem = message("{file} has no line {line}", file=file, line=digits)
        raise UsageError(problem, message("it has {lines} lines", lines=lines))
    around = [item for item in _definitions(file, engine) if item.first <= line <= item.last]
    return Place(file, line, around[-1] if around else None)


def _function(name: str, files: Iterable[str], engine: Engine) -> Place:
    every = [item for file in files for item in _definitions(file, engine) if item.is_function]
    fitting = [item for item in every if f".{item.name}".endswith(f".{name}")]
    if len(fitting) > 1:  # `add` is the function itself rather than `Tensor.add`
        fitting = [item for item in fitting if item.name == name] or fitting
    if len(fitting) == 1:
        return Place(fitting[0].file, None, fitting[0])
    if fitting:
        raise _ambiguous(name, [f"{item.file}:{item.name}" for item in fitting])
    remedy = message(
        "{question}name a function or a line of the engine: {example}",
        question=nearest(name, {item.name for item in every}),
        example="`FILE.py:LINE`",
    )
    problem = message("the engine has no function `{name}`", name=name)
    raise UsageError(problem if name else message("the answer names no function"), remedy)


def _ambiguous(name: str, places: list[str]) -> UsageError:
    shown = either(verbatim(f"`{place}`") for place in places[:MOST_NAMES])
    problem = message("{count} places are called `{name}`", count=len(places), name=name)
    return UsageError(problem, message("name one of them, such as {places}", places=shown))


def _definitions(file: str, engine: Engine) -> list[Definition]:
    """Return the definitions in a file of the engine; outer ones first."""
    return list(_inside(ast.parse(engine.sources[file]), file, ""))


def _inside(node: ast.AST, file: str, scope: str) -> Iterator[Definition]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{scope}.{child.name}".lstrip(".")
            first = min([child.lineno, *(item.lineno for item in child.decorator_list)])
            is_function = not isinstance(child, ast.ClassDef)
            yield Definition(file, name, first, child.end_lineno or child.lineno, is_function)
            yield from _inside(child, file, name)
        else:
            yield from _inside(child, file, scope)
