"""A hunt: a bug that the learner does not know, to be found with evidence that has a price.

Its state and its score follow from the learner's events. The answer names a family, and a place: a
line or a function of the unbroken engine.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING

from harness.core.errors import UsageError
from harness.core.message import Message, either, message, verbatim
from harness.learn.events import AnyEvent, ClueBought, HuntAnswer, HuntBegun, HuntKey, PlaceFound
from harness.pages.catalogue import nearest

if TYPE_CHECKING:
    from harness.core.site import Site
    from harness.engines.engine import Engine

PER_DOUBLING = 10
"""The points that are lost each time the passes double the par."""


@dataclass(frozen=True)
class Hunt:
    """A hunt, what was bought in it, and the answer if it has ended."""

    key: HuntKey
    bought: dict[str, float]
    """The cost of each clue, in the order in which they were bought."""
    answer: HuntAnswer | None = None

    @property
    def passes(self) -> float:
        """The forward passes that were spent."""
        return math.fsum(self.bought.values())

    @property
    def is_solved(self) -> bool:
        """Whether the answer names the family, and the line or its function."""
        return self.answer is not None and self.answer.family and self.answer.place != "no"

    @property
    def score(self) -> int:
        """The points: 100, less 10 for each doubling of the par; half for the family alone."""
        if self.answer is None or not self.answer.family:
            return 0
        doublings = math.log2(max(self.passes / self.answer.par, 1.0))
        points = max(100 - PER_DOUBLING * doublings, 0.0)
        return round(points if self.is_solved else points / 2)


def hunts_in(events: Iterable[AnyEvent]) -> list[Hunt]:
    """Return the hunts in the order in which they were begun; the first answer to each counts."""
    hunts: dict[HuntKey, Hunt] = {}
    for event in events:
        match event:
            case HuntBegun(hunt=key):
                hunts.setdefault(key, Hunt(key, {}))
            case ClueBought(hunt=key, clue=clue, passes=passes):
                hunt = hunts.setdefault(key, Hunt(key, {}))
                if not hunt.answer:
                    hunts[key] = Hunt(key, {**hunt.bought, clue: hunt.bought.get(clue, passes)})
            case HuntAnswer(hunt=key):
                hunt = hunts.setdefault(key, Hunt(key, {}))
                hunts[key] = Hunt(key, hunt.bought, hunt.answer or event)
    return list(hunts.values())


def open_hunt(hunts: Sequence[Hunt], is_current: Callable[[HuntKey], bool]) -> Hunt | None:
    """Return the last hunt that was begun and has not ended, of those that are current."""
    going = (hunt for hunt in reversed(hunts) if not hunt.answer and is_current(hunt.key))
    return next(going, None)


# ----- In words -----


def seed_of(day: datetime) -> int:
    """Return the seed of a day: 20261122."""
    return int(f"{day:%Y%m%d}")


def label_of(seed: int) -> Message:
    """Return the name of a hunt: its day if the seed is a date, or else its seed."""
    with suppress(ValueError):
        if seed > 19700101:
            return verbatim(date.fromisoformat(str(seed)).isoformat())
    return message("seed {seed}", seed=seed)


def counted_clues(count: int) -> Message:
    """Return a number of clues."""
    return message("1 clue") if count == 1 else message("{count} clues", count=count)


def result_of(hunt: Hunt) -> Message:
    """Return how a hunt ended, in a word or two."""
    if hunt.answer is None:
        return message("not ended")
    if hunt.is_solved:
        return message("solved")
    return message("half solved") if hunt.answer.family else message("not solved")


# ----- The place that an answer names -----

MOST_NAMES = 4
"""The number of functions with the same name to list."""

MOST_DIGITS = 9
"""The most digits of a line; Python refuses to read a number with thousands of them."""


@dataclass(frozen=True)
class SourceDefinition:
    """A function or a class of the engine, with its lines."""

    file: str
    name: str
    """Dotted: `Tensor.backward`, `add.vjp`."""
    first: int
    last: int
    is_function: bool


@dataclass(frozen=True)
class GuessedPlace:
    """Where the learner says that the bug is: a line, or a function."""

    file: str
    line: int | None
    definition: SourceDefinition | None
    """The function, or the innermost definition around the line; None at the top of a module."""


def read_place(text: str, engine: Engine) -> GuessedPlace:
    """Return the place that `file.py:12`, `function`, `Class.method` or `file.py:function` names.

    Raises UsageError for a place that the engine does not have, or for a name that several
    functions have.
    """
    file, colon, rest = text.strip().rpartition(":")
    if colon and rest.isdecimal():
        return _line(_file(file, engine.sources), rest, engine)
    files = [_file(file, engine.sources)] if colon else list(engine.sources)
    return _function(rest.removesuffix("()"), files, engine)


def judge(place: GuessedPlace, sites: Iterable[Site], engine: Engine) -> PlaceFound:
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


def _judge(place: GuessedPlace, site: Site, engine: Engine) -> PlaceFound:
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


def _line(file: str, digits: str, engine: Engine) -> GuessedPlace:
    lines = engine.sources[file].count("\n")
    line = int(digits) if len(digits) <= MOST_DIGITS else 0
    if not 1 <= line <= lines:
        problem = message("{file} has no line {line}", file=file, line=digits)
        raise UsageError(problem, message("it has {lines} lines", lines=lines))
    around = [item for item in _definitions(file, engine) if item.first <= line <= item.last]
    return GuessedPlace(file, line, around[-1] if around else None)


def _function(name: str, files: Iterable[str], engine: Engine) -> GuessedPlace:
    every = [item for file in files for item in _definitions(file, engine) if item.is_function]
    fitting = [item for item in every if f".{item.name}".endswith(f".{name}")]
    if len(fitting) > 1:  # `add` is the function itself rather than `Tensor.add`
        fitting = [item for item in fitting if item.name == name] or fitting
    if len(fitting) == 1:
        return GuessedPlace(fitting[0].file, None, fitting[0])
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


def _definitions(file: str, engine: Engine) -> list[SourceDefinition]:
    """Return the definitions in a file of the engine; outer ones first."""
    return list(_inside(ast.parse(engine.sources[file]), file, ""))


def _inside(node: ast.AST, file: str, scope: str) -> Iterator[SourceDefinition]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{scope}.{child.name}".lstrip(".")
            first = min([child.lineno, *(item.lineno for item in child.decorator_list)])
            is_function = not isinstance(child, ast.ClassDef)
            yield SourceDefinition(file, name, first, child.end_lineno or child.lineno, is_function)
            yield from _inside(child, file, name)
        else:
            yield from _inside(child, file, scope)
