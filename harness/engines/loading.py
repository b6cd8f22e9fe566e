"""Loading an engine from memory, and replacing the code of its functions, in a child process.

Only the text passed in is executed, never a file or cached bytecode. It is compiled under its
original path, so tracebacks show its lines.
"""

from __future__ import annotations

import gc
import importlib
import importlib.abc
import importlib.machinery
import inspect
import linecache
import math
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import (
    AsyncGeneratorType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    ModuleType,
)
from typing import Any

from harness.core.site import HOOKS, Hooks, Site
from harness.engines.instrumentation import compile_marked

FileCodes = Mapping[str, CodeType]
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
    tops = {file.partition("/")[0].removesuffix(".py") for file in sources}
    tops -= sys.stdlib_module_names  # which Python itself may have imported
    tops.add(module.partition(".")[0])
    for name in [name for name in sys.modules if name.partition(".")[0] in tops]:
        del sys.modules[name]
    finder = MemoryFinder(root, sources, sites, hooks)
    # A host may have loaded another engine with modules of the same names.
    others = [item for item in sys.meta_path if not isinstance(item, MemoryFinder)]
    sys.meta_path[:] = [finder, *others]
    return importlib.import_module(module)


def find_in_memory(
    root: Path, sources: Mapping[str, str], compiled: FileCodes | None = None
) -> None:
    """Let imports of modules that are not loaded yet find these files (paths below `root`).

    Files in `compiled` are executed as that code; `sources` has the text to show for them.
    """
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, MemoryFinder(root, sources, (), HOOKS, compiled))


def file_of(frame: FrameType) -> str | None:
    """Return the engine's file that a frame executes, as a path below its root; None for others."""
    return file_with(frame.f_globals)


def file_with(names: Mapping[str, Any]) -> str | None:
    """Return the engine's file whose module has these names; None for other modules."""
    loader = names.get("__loader__")
    return loader.file if isinstance(loader, _MemoryLoader) else None


def compile_files(
    root: Path, sources: Mapping[str, str], sites: Sequence[Site], hooks: Hooks = HOOKS
) -> FileCodes:
    """Compile the files as `load` does, and cache the code for later calls of both functions.

    Raises SyntaxError, ValueError or RecursionError for a file that cannot be compiled.
    """
    finder = MemoryFinder(root, sources, sites, hooks)
    return {file: finder.code(file) for file in sources}


def relocated(code: CodeType, path: str) -> CodeType:
    """Return the code of a file as if it had been compiled from another path."""
    constants = tuple(
        relocated(constant, path) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_filename=path, co_consts=constants)


_compile_once = lru_cache(maxsize=512)(compile_marked)
"""Compiles a file once for all engines that share it."""


class MemoryFinder(importlib.abc.MetaPathFinder):
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
        compiled: FileCodes | None = None,
    ) -> None:
        self.root, self.sources, self.sites, self.hooks = root, sources, sites, hooks
        self.compiled = compiled or {}
        self.tops = {file.partition("/")[0] for file in sources if "/" in file}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's spec; None if it belongs to no package of these files."""
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

    def execute(self, file: str, namespace: dict[str, Any]) -> None:
        """Execute a file in the namespace of its module."""
        exec(self.code(file), namespace)  # noqa: S102  this is what a loader does

    def code(self, file: str) -> CodeType:
        """Return the code of a file, and let tracebacks show its text."""
        text, path = self.sources[file], str(self.root / file)
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        if file in self.compiled:
            return self.compiled[file]
        numbered = [pair for pair in enumerate(self.sites) if pair[1].file == file]
        return _compile_once(text, path, tuple(numbered), self.hooks if numbered else HOOKS)


class _MemoryLoader(importlib.abc.InspectLoader):
    """Executes the text of one module."""

    def __init__(self, finder: MemoryFinder, file: str) -> None:
        self.finder, self.file = finder, file

    def get_source(self, fullname: str) -> str:  # noqa: ARG002  the protocol's argument
        return self.finder.sources[self.file]

    def exec_module(self, module: ModuleType) -> None:
        self.finder.execute(self.file, module.__dict__)


# ----- Which functions are called, and by which -----

CallEdge = tuple[CodeType, CodeType | None]
"""The code of a function, and the code that called it, if any."""


class CallRecorder:
    """Records the calls of functions in some files, in this thread.

    It gives up after `most` calls, since recording makes each of them slower.
    """

    def __init__(self, files: Collection[str], most: float = math.inf) -> None:
        self._files, self._most, self._left = frozenset(files), most, most
        self._calls: dict[tuple[int, int], CallEdge] = {}  # by `id`, since comparing code is slow

    def start(self) -> None:
        """Start recording, and discard what was recorded before."""
        self._calls.clear()
        self._left = self._most
        sys.settrace(self._note)

    def stop(self) -> list[CallEdge] | None:
        """Return the different calls, in order; None if they could not all be recorded.

        Python also stops tracing when the stack has no room left for the trace function.
        """
        lost = sys.gettrace() != self._note
        sys.settrace(None)
        return None if lost else list(self._calls.values())

    def _note(self, frame: FrameType, _event: str, _argument: object) -> None:
        code = frame.f_code
        if code.co_filename in self._files:
            caller = frame.f_back.f_code if frame.f_back else None
            self._calls[id(code), id(caller)] = code, caller
            self._left -= 1
            if self._left < 0:
                sys.settrace(None)


# ----- Swapping: giving a loaded engine's functions the code of the patched text -----
#
# A function object refers to its code object, so everything that refers to the function (a class,
# a table of rules, a closure) sees the replacement. The result equals the engine loaded from the
# patched text, unless the import itself would have run differently. So an engine cannot be swapped
# if the patch changes
#
#     the body of a module or a class: constants, attributes, decorators, default arguments
#     a function that the import called, such as a decorator, or whose code it inspected
#     a generator that the import created
#     the signature of a function, its docstring, or its free variables

Replacement = tuple[CodeType, CodeType]
"""The code object of a function, and the one that replaces it."""


class Functions:
    """The function objects of an engine that is loaded in this process.

    Parameters
    ----------
    codes : mapping from str to CodeType
        What the engine's files were compiled to.
    called : set of CodeType or None
        The functions that were called or inspected while the engine was imported, or since; None
        if that is not known, so that the engine has to be loaded again for every change.
    own : frozenset of int, optional
        The ids of the code objects that functions may have; others are not even compared, which
        would hash their constants.
    """

    def __init__(
        self, codes: FileCodes, called: set[CodeType] | None, own: frozenset[int] | None = None
    ) -> None:
        self.codes, self.is_known = codes, called is not None
        self.by_code: dict[_CodeIdentity, list[FunctionType]] = {}
        """The function objects that have each code."""
        self.called: set[CodeType] = set()
        if called is not None:
            files = {code.co_filename for code in codes.values()}
            self.by_code, suspended = _functions_by_code(files, own)
            self.called = called | suspended

    def plan(self, patched: FileCodes) -> list[Replacement] | None:
        """Return the functions to replace so that the engine becomes that of these files.

        None if it has to be loaded again, since what has run would have run differently.
        """
        if not self.is_known:
            return None
        pairs: list[Replacement] = []
        try:
            for file, code in patched.items():
                if code is not self.codes[file]:
                    pairs += self._pairs(self.codes[file], code)
        except (_CannotSwap, KeyError):
            return None
        return pairs

    def swap(self, pairs: Sequence[Replacement]) -> None:
        """Replace code; afterwards, line numbers are those of the patched text."""
        for old, new in pairs:
            for function in self.by_code.get(_identity(old), ()):
                function.__code__ = new

    def _pairs(self, old: CodeType, new: CodeType) -> Iterator[Replacement]:
        """Yield the old and the new code of each function in `old`. Raises _CannotSwap."""
        is_function = bool(old.co_flags & inspect.CO_OPTIMIZED)
        if (not is_function or old in self.called) and differ(old, new):
            raise _CannotSwap
        if _identity(old) in self.by_code and _interface(old) != _interface(new):
            raise _CannotSwap
        inner, replacements = _inner(old), _inner(new)
        if [code.co_qualname for code in inner] == [code.co_qualname for code in replacements]:
            for pair in zip(inner, replacements, strict=True):
                yield from self._pairs(*pair)
        elif any(_identity(code) in self.by_code for code in _all_inner(old)):
            raise _CannotSwap
        if is_function:
            yield old, new


class LoadedEngine:
    """An engine that was loaded from its text; it can become a patched version of it, once."""

    def __init__(self, module: str, root: Path, sources: Mapping[str, str]) -> None:
        """Import the engine. Raises what the import raises."""
        self.sources = dict(sources)
        codes = compile_files(root, sources, ())  # the code objects that `load` executes
        recorder = CallRecorder({str(root / file) for file in sources})
        recorder.start()
        try:
            self.module: ModuleType = load(module, root, sources)
        finally:
            calls = recorder.stop()
        assert calls is not None  # None only if the import has used up the stack
        self.functions = Functions(codes, {code for code, _ in calls})

    def swap(self, patched: FileCodes) -> bool:
        """Replace the functions' code with that of these files; return whether it was possible.

        If not, nothing is changed.
        """
        pairs = self.functions.plan(patched)
        if pairs is None:
            return False
        self.functions.swap(pairs)
        return True


def differ(old: CodeType, new: CodeType) -> bool:
    """Whether two code objects do different things, apart from the functions nested in them."""
    same = old == new and old.co_qualname == new.co_qualname  # with equal lines: the usual case
    return not same and _own(old) != _own(new)


class _CannotSwap(Exception):
    """The patched engine must be loaded instead."""


def _functions_by_code(
    files: set[str], own: frozenset[int] | None
) -> tuple[dict[_CodeIdentity, list[FunctionType]], set[CodeType]]:
    """Return the functions defined in these files, by their code, and the code of generators.

    A generator keeps the code that its function had when it was called.
    """
    functions: dict[_CodeIdentity, list[FunctionType]] = defaultdict(list)
    suspended: set[CodeType] = set()
    frozen = gc.get_freeze_count()
    gc.unfreeze()  # a test suite may have frozen its objects, which `get_objects` would leave out
    objects = gc.get_objects()
    if frozen:
        gc.freeze()
    for item in objects:
        attribute = _WITH_CODE.get(type(item))
        code = getattr(item, attribute) if attribute else None
        if code is None or not (code.co_filename in files if own is None else id(code) in own):
            continue
        if type(item) is FunctionType:
            functions[_identity(code)].append(item)
        else:
            suspended.add(code)
    return functions, suspended


_WITH_CODE = {
    FunctionType: "__code__",
    GeneratorType: "gi_code",
    CoroutineType: "cr_code",
    AsyncGeneratorType: "ag_code",
}
"""The attribute of a function or a generator that holds its code, by type."""


_CodeIdentity = tuple[str, CodeType]


def _identity(code: CodeType) -> _CodeIdentity:
    """Return a key of equal code objects of one file: Python does not compare their files."""
    return code.co_filename, code


def _own(code: CodeType) -> Sequence[object]:
    """Return what a code object does, without line numbers and the code of nested functions."""
    constants = [
        constant.co_qualname if isinstance(constant, CodeType) else _exact(constant)
        for constant in code.co_consts
    ]
    if "__firstlineno__" in code.co_names:  # from 3.13 on, set by the body of a class
        line = _exact(code.co_firstlineno)
        constants = ["line" if constant == line else constant for constant in constants]
    return (
        code.co_code,
        constants,
        code.co_names,
        code.co_varnames,
        code.co_exceptiontable,
        _interface(code),
    )


def _interface(code: CodeType) -> Sequence[object]:
    """Return the properties of a function on which the enclosing code depends."""
    arguments = code.co_argcount + code.co_kwonlyargcount
    starred = bool(code.co_flags & inspect.CO_VARARGS) + bool(
        code.co_flags & inspect.CO_VARKEYWORDS
    )
    return (
        code.co_qualname,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_varnames[: arguments + starred],
        code.co_flags,
        code.co_freevars,
        _docstring(code),
    )


def _docstring(code: CodeType) -> str | None:
    """Return the docstring of a function: its first constant, if that is a string."""
    first = code.co_consts[0] if code.co_consts else None
    return first if isinstance(first, str) else None


def _exact(constant: object) -> object:
    """Return a key for a constant under which 0.0 and -0.0 differ, as do 1 and True."""
    if isinstance(constant, tuple):
        return tuple(map(_exact, constant))
    if isinstance(constant, frozenset):
        return frozenset(map(_exact, constant))
    return type(constant), repr(constant)


def _inner(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _all_inner(code: CodeType) -> Iterator[CodeType]:
    for inner in _inner(code):
        yield inner
        yield from _all_inner(inner)
