"""Whether a run has changed the engine's own variables, so that the next run could differ.

This is meant for broken engines, not for code that hides its changes: if a value changes inside an
object that a module refers to, that is not detected.
"""

from __future__ import annotations

import sys
from itertools import chain
from operator import is_, methodcaller
from types import ModuleType
from typing import Any


class EngineState:
    """The variables of an engine's modules and classes at the time of creation."""

    def __init__(self, engine: str) -> None:
        """Record the variables of the top-level module `engine` and of its submodules."""
        modules = [
            vars(module)
            for name, module in list(sys.modules.items())
            if name.partition(".")[0] == engine and isinstance(module, ModuleType)
        ]
        classes = {
            value: None
            for names in modules
            for value in names.values()
            if isinstance(value, type) and str(value.__module__).partition(".")[0] == engine
        }
        self._spaces = [*modules, *map(vars, classes)]
        self._values = self._current()
        self._containers = [value for value in self._values if type(value) in _CONTAINERS]
        self._lengths = list(map(len, self._containers))

    def is_unchanged(self) -> bool:
        """Whether every variable is still the same object, and every container is as long."""
        values = self._current()
        return (
            len(values) == len(self._values)
            and all(map(is_, values, self._values))
            and list(map(len, self._containers)) == self._lengths
        )

    def _current(self) -> list[Any]:
        return list(chain.from_iterable(map(methodcaller("values"), self._spaces)))


_CONTAINERS = {list, dict, set}
