"""The scope of a hunk: which definitions of which files it may touch.

add                      functions and classes of that name, nested in anything
add.vjp                  vjp directly inside add
*.backward               a backward inside any function or class
.add                     the module's own add, not a method
op:add                   the op under any usual name, `Add` or `__add__` or `add_backward`
op:accumulate            the function that adds a gradient to that of a tensor
elementwise.py::add      in that file only
add|mul                  either
(nothing)                the whole module
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from itertools import product

from harness.patch.tree import SYMBOLS, Definition, Source

EngineNames = Mapping[str, str | tuple[str, ...]]
"""Our name, and the engine's as its code writes it: `_sum_to_shape`, `utils.sum_to`, or several."""

OPERATIONS: dict[str, tuple[str, ...]] = {
    "add": ("add", "plus", "addition"),
    "sub": ("sub", "subtract", "minus", "subtraction"),
    "mul": ("mul", "multiply", "times", "multiplication"),
    "div": ("div", "truediv", "divide", "division", "true_divide", "truedivide"),
    "neg": ("neg", "negate", "negative"),
    "pow": ("pow", "power"),
    "matmul": ("matmul", "mm", "dot", "mat_mul"),
    "exp": ("exp", "exponential"),
    "log": ("log", "ln"),
    "sqrt": ("sqrt", "square_root"),
    "abs": ("abs", "absolute"),
    "tanh": ("tanh",),
    "sigmoid": ("sigmoid", "logistic"),
    "relu": ("relu", "re_lu"),
    "sum": ("sum", "summation", "reduce_sum"),
    "mean": ("mean", "average", "reduce_mean"),
    "max": ("max", "amax", "reduce_max"),
    "softmax": ("softmax",),
    "transpose": ("transpose", "permute", "t"),
    "reshape": ("reshape", "view"),
    "where": ("where",),
}
"""Our name of an op, and its names in engines."""

DEFINITIONS = {**OPERATIONS, "accumulate": ("accumulate", "accum", "acc")}
"""What `op:` may name: an op, or the function that adds a gradient to that of a tensor, which the
survey also finds by its behaviour."""

_IN_FRONT = r"(?:(?:grad|vjp|backward|ewise|elementwise|tensor|d)_?)?"
_BEHIND = r"(?:(?:_?(?:backward|grad|vjp|op|operation|function|fn|node|broadcasted|tensor))+\d*)?"

_GLOB = re.compile(r"[*?\[:]")
_HEADER = re.compile(r"\b(?:def|class)(?=[\s\\]+([^\s\\(:\[]+))")
"""The lookahead does not consume the name, since `# a class` may precede a `def`. An identifier may
contain characters that `\\w` does not match, so a name ends where the header continues."""

_KEY = re.compile(r"""["']([^"'\n]+)["']\s*:""")

_SEGMENT = re.compile(r"(op:)?[\w*?\[\]!-]+")


@dataclass(frozen=True)
class Alternative:
    """One of a scope's ``|`` alternatives."""

    file: str
    path: tuple[str, ...]
    """The dotted path's segments; () is the whole module, a leading "" its top level."""

    loose: bool = False
    """Whether a name may match several definitions, like a wildcard."""

    @property
    def is_exact(self) -> bool:
        """Whether it means a single definition: its dotted path has no wildcard."""
        return bool(self.path) and not self.loose and not _GLOB.search(".".join(self.path))

    def __str__(self) -> str:
        """The alternative as a page writes it."""
        return f"{self.file}::{'.'.join(self.path)}" if self.file else ".".join(self.path)

    def takes_file(self, file: str) -> bool:
        """Whether the tail of a file's path matches."""
        return not self.file or _tail_matches(self.file.split("/"), file.split("/"))

    def may_be_in(self, file: str, text: str) -> bool:
        """Whether it may name a definition in this text, decided without parsing the text."""
        if not self.takes_file(file):
            return False
        names = _headed(text) | _keys(text) if self.loose else _headed(text)
        return all(any(_matches(segment, n) for n in names) for segment in self.path if segment)

    def definitions(self, source: Source) -> tuple[Definition, ...]:
        """The definitions that it names in a file; none if it means the whole module.

        In a portable block, the entries of a table of rules count as definitions.
        """
        rules = source.rules if self.loose else ()
        return tuple(d for d in (*source.definitions, *rules) if self._names(d.name))

    def _names(self, name: str) -> bool:
        segments = name.split(".")
        if self.path[:1] == ("",):
            return len(self.path) == len(segments) + 1 and _tail_matches(self.path[1:], segments)
        return bool(self.path) and _tail_matches(self.path, segments)


@dataclass(frozen=True)
class Scope:
    """The scope between the ``@@`` of a hunk's header."""

    text: str
    alternatives: tuple[Alternative, ...]

    def renamed(self, names: EngineNames) -> Scope:
        """The scope with an engine's own names; each of several spellings is an alternative."""
        if not names:
            return self
        alternatives = []
        for alternative in self.alternatives:
            paths = list(product(*(_renamed(segment, names) for segment in alternative.path)))
            loose = alternative.loose or len(paths) > 1
            alternatives += [replace(alternative, path=path, loose=loose) for path in paths]
        return Scope("|".join(map(str, alternatives)), tuple(alternatives))

    def loosened(self, text: str) -> Scope:
        """The scope with this text, where a name may mean several definitions."""
        return Scope(text, tuple(replace(a, loose=True) for a in self.alternatives))

    def takes_file(self, file: str) -> bool:
        """Whether an alternative allows this file."""
        return any(alternative.takes_file(file) for alternative in self.alternatives)

    def may_be_in(self, file: str, text: str) -> bool:
        """Whether an alternative may name a definition in this text."""
        return any(alternative.may_be_in(file, text) for alternative in self.alternatives)

    def named(self, sources: Mapping[str, Source]) -> list[tuple[str, Definition]]:
        """Every definition that the scope names, with its file."""
        return [
            (file, definition)
            for file, source in sources.items()
            for alternative in self.alternatives
            if alternative.takes_file(file)
            for definition in alternative.definitions(source)
        ]


def _renamed(segment: str, names: EngineNames) -> tuple[str, ...]:
    op = segment.removeprefix("op:")
    theirs = last_parts(names.get(op, ()))
    return (segment, *theirs) if op != segment else theirs or (segment,)


def parse_scope(text: str) -> Scope:
    """Read a scope. Raises `ValueError` if it is malformed."""
    alternatives = []
    for part in text.split("|"):
        file, colons, dotted = part.strip().rpartition("::")
        if colons and not file:
            raise ValueError("a file is missing in front of `::`")
        path = tuple(dotted.split(".")) if dotted else ()
        for op in (segment[3:] for segment in path if segment.startswith("op:")):
            if op not in DEFINITIONS:
                raise ValueError(f"`{op}` is not an op; the ops are {', '.join(DEFINITIONS)}")
        segments = path[1:] if path[:1] == ("",) else path
        if not all(map(_SEGMENT.fullmatch, segments)) or (not part.strip() and text.strip()):
            raise ValueError(f"`{part.strip()}` is not a dotted path of names")
        alternatives.append(Alternative(file, path))
    return Scope(text, tuple(alternatives))


@lru_cache(maxsize=256)
def _headed(text: str) -> frozenset[str]:
    """The names after each `def` and `class`, also in comments and strings."""
    return frozenset(_HEADER.findall(text))


@lru_cache(maxsize=256)
def _keys(text: str) -> frozenset[str]:
    """The keys of lambdas in dictionaries, with the names of ops for operators."""
    return frozenset(SYMBOLS.get(key, key) for key in _KEY.findall(text))


def _tail_matches(pattern: Iterable[str], segments: Iterable[str]) -> bool:
    globs, names = list(pattern), list(segments)
    tail = names[len(names) - len(globs) :]
    return len(globs) <= len(names) and all(map(_matches, globs, tail))


def _matches(glob: str, name: str) -> bool:
    if glob.startswith("op:"):
        return is_operation(name, glob.removeprefix("op:"))
    return fnmatchcase(name, glob)


# ----- the names of other engines -----


def is_operation(name: str, op: str) -> bool:
    """Whether a definition of that name implements the op, as a method, class or rule.

    The name may be the op's alone, in any case, or combined with a word for the part of the engine
    that implements it (`AddBackward`, `_add_vjp`, `grad_add`, `EWiseAdd`). Other combinations do
    not count: `add_module` and `AddScalar` are not the op `add`.
    """
    return _pattern(op).fullmatch(name) is not None


@cache
def _pattern(op: str) -> re.Pattern[str]:
    names = "|".join(DEFINITIONS[op])
    return re.compile(rf"_*{_IN_FRONT}(?:{names}){_BEHIND}_*|__r(?:{names})__", re.IGNORECASE)


def spellings(theirs: str | Iterable[str]) -> tuple[str, ...]:
    """A name's spellings, in order."""
    return (theirs,) if isinstance(theirs, str) else tuple(theirs)


def last_parts(theirs: str | Iterable[str]) -> tuple[str, ...]:
    """The last parts of the spellings without repeats, for places where only an identifier fits."""
    return tuple(dict.fromkeys(dotted.rpartition(".")[2] for dotted in spellings(theirs)))
