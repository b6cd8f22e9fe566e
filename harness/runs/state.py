"""Whether a run has changed the engine's variables or its process, and may affect the next run.

This is meant for broken engines, not for code that hides its changes: if a value changes inside an
object that a module refers to, that is not detected.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import warnings
from itertools import chain
from operator import is_, methodcaller
from pathlib import Path
from types import ModuleType
from typing import Any


class EngineState:
    """The variables of an engine's modules and classes, and its process, at the time of creation.

    `builtins`, `os` and NumPy count as modules of the engine.
    """

    def __init__(self, engine: str) -> None:
        """Record the variables of the top-level module `engine` and of its submodules."""
        modules = [
            vars(module)
            for name, module in list(sys.modules.items())
            if name in _USED or name.partition(".")[0] == engine
            if isinstance(module, ModuleType)
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
        self._settings: object = None

    def begin_run(self) -> None:
        """Record the settings of the process, which another run may have changed and reset."""
        self._settings = _settings()

    def is_unchanged(self) -> bool:
        """Whether every variable is still the same object, and every container is as long.

        Some settings of the process must also be the same.
        """
        values = self._current()
        return (
            len(values) == len(self._values)
            and False not in map(is_, values, self._values)  # the engine could replace `all`
            and list(map(len, self._containers)) == self._lengths
            and _settings() == self._settings
        )

    def _current(self) -> list[Any]:
        return list(chain.from_iterable(map(methodcaller("values"), self._spaces)))


_USED = "builtins", "os", "numpy", "numpy.linalg"

_CONTAINERS = {list, dict, set}


def _settings() -> object:
    """Return settings of this process that a probe could notice, and that are quick to read."""
    one = 1.0
    try:
        folder = Path().stat()
        return (
            (sys.gettrace(), sys.getprofile(), sys.getrecursionlimit()),
            (sys.stdin, sys.stdout, sys.stderr, os.get_blocking(1)),
            (len(sys.path), len(sys.meta_path), len(warnings.filters), len(gc.callbacks)),
            (gc.isenabled(), threading.active_count()),
            (folder.st_ino, folder.st_mode, folder.st_mtime_ns),
            (one + 1e-17, one - 1e-17),  # how numbers are rounded
        )
    except OSError:  # the folder is missing, or standard output is closed
        return object()  # never equal to another
