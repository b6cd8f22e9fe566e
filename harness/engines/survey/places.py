"""Places in an engine's code, and their names.

Functions are told apart by their code, not by their names: four lambdas are four places.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import msgspec

from harness.engines.adapter.calling import attribute_of
from harness.engines.survey import Survey


class Place(msgspec.Struct, frozen=True):
    """A function's code."""

    file: str
    line: int
    end: tuple[int | None, int | None]
    """The line and column of its last instruction; a line may have several lambdas."""
    name: str
    """Its qualified name."""


def place_of(code: CodeType) -> Place:
    """Return the place of a function's code."""
    *_, (line, _, column, _) = code.co_positions()
    return Place(code.co_filename, code.co_firstlineno, (line, column), code.co_qualname)


def modules_of(task: Survey) -> list[ModuleType]:
    """The engine's modules that are imported, each file once."""
    files = {str(Path(task.root) / file) for file in task.sources}
    tops = {file.partition("/")[0].removesuffix(".py") for file in task.sources}
    # In tests of the harness, the same file may also be imported under another name.
    return [
        module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in tops and attribute_of(module, "__file__") in files
    ]


def keys_of(modules: Iterable[ModuleType]) -> dict[Place, tuple[str, str]]:
    """The functions in tables of rules: for each, the table's name and the key, a string."""
    return {
        place: (table, key)
        for module in modules
        for table, mapping in _tables(module)
        for key, value in list(mapping.items())
        if isinstance(key, str)
        for place in _places_in(value)
    }


def _tables(module: ModuleType) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    for name, value in list(vars(module).items()):
        if isinstance(value, dict) and not name.startswith("__"):
            yield name, value
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for attribute, mapping in list(vars(value).items()):
                if isinstance(mapping, dict):
                    yield f"{name}.{attribute}", mapping


def _places_in(value: Any) -> Iterator[Place]:
    """The functions that a table has for a key: one, or one for each operand."""
    for item in value if isinstance(value, tuple | list) else (value,):
        code = attribute_of(item, "__code__")
        if isinstance(code, CodeType):
            yield place_of(code)


def labels(
    places: Iterable[Place], keys: Mapping[Place, tuple[str, str]], root: str
) -> dict[Place, str]:
    """Return a name for each place, with file and line for lambdas and for names of several."""
    listed = list(dict.fromkeys(places))
    count = Counter(place.name for place in listed)
    return {place: _label(place, keys.get(place), count[place.name] > 1, root) for place in listed}


def _label(place: Place, key: tuple[str, str] | None, shared: bool, root: str) -> str:
    if key:
        return f'{key[0]}["{key[1]}"]'
    if not shared and not place.name.endswith("<lambda>"):
        return place.name
    return f"{place.name} ({Path(place.file).relative_to(root).as_posix()}:{place.line})"
