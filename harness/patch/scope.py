"""The scope of a hunk: which definitions of which files it may touch.

add                      the functions and classes called so, nested in anything
add.vjp                  vjp directly inside add
*.backward               a backward inside something, whatever that is
.add                     the module's own add, not a method
op:add                   whatever an engine calls the op, `Add` or `__add__` or `add_backward`
elementwise.py::add      in that file only
add|mul                  either
(nothing)                the whole module
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import product

from harness.patch.operations import OPERATIONS, is_operation
from harness.patch.source import Definition, Source
from harness.patch.spellings import Names, last_parts

_GLOB = re.compile(r"[*?\[:]")
_HEADER = re.compile(r"\b(?:def|class)(?=[\s\\]+([^\s\\(:\[]+))")
"""Looks ahead without going there: `# a class` may stand above a `def`. An identifier may hold what
is no `\\w`, so a name ends where a header goes on."""

_SEGMENT = re.compile(r"(op:)?[\w*?\[\]!-]+")


@dataclass(frozen=True)
class Alternative:
    """One of a scope's ``|`` alternatives."""

    file: str
    path: tuple[str, ...]
    """The dotted path's segments; () is the whole module, a leading "" its top level."""

    loose: bool = False
    """A name may mean several definitions, as a wildcard may."""

    @property
    def is_exact(self) -> bool:
        """It means one definition: no wildcard in the dotted path."""
        return bool(self.path) and not self.loose and not _GLOB.search(".".join(self.path))

    def __str__(self) -> str:
        """The alternative as a page writes it."""
        return f"{self.file}::{'.'.join(self.path)}" if self.file else ".".join(self.path)

    def takes_file(self, file: str) -> bool:
        """Whether the tail of a file's path matches."""
        return not self.file or _tail_matches(self.file.split("/"), file.split("/"))

    def may_be_in(self, file: str, text: str) -> bool:
        """Whether it may name something in this text; False only where it surely does not.

        Most files need not be parsed for that.
        """
        return self.takes_file(file) and all(
            any(_takes(segment, name) for name in _headed(text)) for segment in self.path if segment
        )

    def definitions(self, source: Source) -> tuple[Definition, ...]:
        """What it names in a file; nothing for the whole module."""
        return tuple(found for found in source.definitions if self._names(found.name))

    def _names(self, name: str) -> bool:
        segments = name.split(".")
        if self.path[:1] == ("",):
            return len(self.path) == len(segments) + 1 and _tail_matches(self.path[1:], segments)
        return bool(self.path) and _tail_matches(self.path, segments)


@dataclass(frozen=True)
class Scope:
    """What stands between the ``@@`` of a hunk's header."""

    text: str
    alternatives: tuple[Alternative, ...]

    def renamed(self, names: Names) -> Scope:
        """The same scope in an engine that calls things differently.

        Of several spellings each is an alternative; those of an op are further ones.
        """
        if not names:
            return self
        alternatives = []
        for each in self.alternatives:
            paths = list(product(*(_spelled(segment, names) for segment in each.path)))
            loose = each.loose or len(paths) > 1
            alternatives += [replace(each, path=path, loose=loose) for path in paths]
        return Scope("|".join(map(str, alternatives)), tuple(alternatives))

    def loosened(self, text: str) -> Scope:
        """The same scope under this text, in which a name may mean several definitions."""
        return Scope(text, tuple(replace(each, loose=True) for each in self.alternatives))


def _spelled(segment: str, names: Names) -> tuple[str, ...]:
    op = segment.removeprefix("op:")
    theirs = last_parts(names.get(op, ()))
    return (segment, *theirs) if op != segment else theirs or (segment,)


def parse_scope(text: str) -> Scope:
    """Read a scope. Raises `ValueError` with what is wrong."""
    alternatives = []
    for part in text.split("|"):
        file, colons, dotted = part.strip().rpartition("::")
        if colons and not file:
            raise ValueError("nothing stands before `::`, where a file belongs")
        path = tuple(dotted.split(".")) if dotted else ()
        for op in (each.removeprefix("op:") for each in path if each.startswith("op:")):
            if op not in OPERATIONS:
                raise ValueError(f"no op is called `{op}`; there are {', '.join(OPERATIONS)}")
        bad = [each for each in path[path[:1] == ("",) :] if not _SEGMENT.fullmatch(each)]
        if bad or (not part.strip() and text.strip()):
            raise ValueError(f"`{part.strip()}` is not a dotted path of names")
        alternatives.append(Alternative(file, path))
    return Scope(text, tuple(alternatives))


def named(scope: Scope, sources: Mapping[str, Source]) -> list[tuple[str, Definition]]:
    """Every definition that a scope names, with its file."""
    return [
        (file, definition)
        for file, source in sources.items()
        for each in scope.alternatives
        if each.takes_file(file)
        for definition in each.definitions(source)
    ]


@lru_cache(maxsize=256)
def _headed(text: str) -> frozenset[str]:
    """Whatever stands behind a `def` or a `class`, in comments and strings as well."""
    return frozenset(_HEADER.findall(text))


def _tail_matches(pattern: Iterable[str], segments: Iterable[str]) -> bool:
    wanted, given = list(pattern), list(segments)
    return len(wanted) <= len(given) and all(map(_takes, wanted, given[len(given) - len(wanted) :]))


def _takes(wanted: str, name: str) -> bool:
    if wanted.startswith("op:"):
        return is_operation(name, wanted.removeprefix("op:"))
    return fnmatchcase(name, wanted)
