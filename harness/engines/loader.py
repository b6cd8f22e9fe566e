"""Loading an engine from memory, in the child process that runs it.

Only the text passed in is executed, never a file or cached bytecode. It is compiled under its
original path, so tracebacks show its lines.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import linecache
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, FrameType, ModuleType

from harness.core.site import HOOKS, Hooks, Site
from harness.engines.reach import compile_marked

Codes = Mapping[str, CodeType]
"""The code object of each of an engine's files, by its path below the root."""


def load(
    module: str,
    root: Path,
    sources: Mapping[str, str],
    sites: Sequence[Site] = (),
    hooks: Hooks = HOOKS,
) -> ModuleType:
    """Import `module` anew, with the engine's files taken from `sources` (paths below `root`).

    The sites call `hooks`. Earlier imports of the same packages are dropped. Raises what the import
    raises.
    """
    sys.dont_write_bytecode = True
    tops = {module.partition(".")[0], *_packages(sources)}
    for name in [name for name in sys.modules if name.partition(".")[0] in tops]:
        del sys.modules[name]
    finder = _MemoryFinder(root, sources, sites, hooks)
    # A host may have loaded another engine with modules of the same names.
    others = [item for item in sys.meta_path if not isinstance(item, _MemoryFinder)]
    sys.meta_path[:] = [finder, *others]
    return importlib.import_module(module)


def find_in_memory(root: Path, sources: Mapping[str, str], compiled: Codes | None = None) -> None:
    """Let imports of modules that are not loaded yet find these files (paths below `root`).

    Files in `compiled` are executed as that code; `sources` has the text to show for them.
    """
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, _MemoryFinder(root, sources, (), HOOKS, compiled))


def file_of(frame: FrameType) -> str | None:
    """Return the engine's file that a frame executes, as a path below its root; None for others."""
    loader = frame.f_globals.get("__loader__")
    return loader.file if isinstance(loader, _MemoryLoader) else None


def _packages(sources: Mapping[str, str]) -> set[str]:
    """The top-level modules of the files, except those that Python itself may have imported."""
    tops = {file.partition("/")[0].removesuffix(".py") for file in sources}
    return {top for top in tops if top not in sys.stdlib_module_names}


def compile_files(
    root: Path, sources: Mapping[str, str], sites: Sequence[Site], hooks: Hooks = HOOKS
) -> Codes:
    """Compile the files as `load` does, and cache the code for later calls of both functions.

    Raises SyntaxError, ValueError or RecursionError for a file that cannot be compiled.
    """
    finder = _MemoryFinder(root, sources, sites, hooks)
    return {file: finder.code(file) for file in sources}


def relocated(code: CodeType, path: str) -> CodeType:
    """Return the code of a file as if it had been compiled from another path."""
    constants = tuple(
        relocated(constant, path) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_filename=path, co_consts=constants)


class _MemoryFinder(importlib.abc.MetaPathFinder):
    """Finds the modules whose text was passed in.

    Other modules of the same packages, such as compiled ones, are looked for in the folder of their
    package and nowhere else: the finder of an editable installation would return the installed
    package's.
    """

    def __init__(
        self,
        root: Path,
        sources: Mapping[str, str],
        sites: Sequence[Site],
        hooks: Hooks,
        compiled: Codes | None = None,
    ) -> None:
        self.root, self.sources, self.sites, self.hooks = root, sources, sites, hooks
        self.compiled = compiled or {}
        self.tops = {file.partition("/")[0] for file in sources if "/" in file}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        stem = name.replace(".", "/")
        for file, is_package in ((f"{stem}/__init__.py", True), (f"{stem}.py", False)):
            if file in self.sources:
                loader = _MemoryLoader(self, file)
                spec = ModuleSpec(name, loader, origin=str(self.root / file), is_package=is_package)
                spec.has_location = True
                if is_package:
                    spec.submodule_search_locations = [str((self.root / file).parent)]
                return spec
        if any(file.startswith(f"{stem}/") for file in self.sources):  # no `__init__.py`
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [str(self.root / stem)]
            return spec
        if path is None or name.partition(".")[0] not in self.tops:
            return None
        found = PathFinder.find_spec(name, path)
        if found is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return found

    def code(self, file: str) -> CodeType:
        text, path = self.sources[file], str(self.root / file)
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        if file in self.compiled:
            return self.compiled[file]
        numbered = [pair for pair in enumerate(self.sites) if pair[1].file == file]
        return _compiled(text, path, tuple(numbered), self.hooks if numbered else HOOKS)


@lru_cache(maxsize=512)
def _compiled(text: str, path: str, sites: tuple[tuple[int, Site], ...], hooks: Hooks) -> CodeType:
    """Return a file's code object, compiled once for all engines that share the file."""
    return compile_marked(text, path, sites, hooks)


class _MemoryLoader(importlib.abc.InspectLoader):
    """Executes the text of one module."""

    def __init__(self, finder: _MemoryFinder, file: str) -> None:
        self.finder, self.file = finder, file

    def get_source(self, fullname: str) -> str:  # noqa: ARG002  the protocol's argument
        return self.finder.sources[self.file]

    def exec_module(self, module: ModuleType) -> None:
        exec(self.finder.code(self.file), module.__dict__)  # noqa: S102  this is what a loader does
