"""Swapping: replace the code of a loaded engine's functions with that of the patched text.

A function object refers to its code object, so everything that refers to the function (a class, a
table of rules, a closure) sees the replacement. The result equals the engine loaded from the
patched text, unless the import itself would have run differently. So an engine cannot be swapped if
the patch changes

    the body of a module or a class: constants, attributes, decorators, default arguments
    a function that the import called, such as a decorator, or whose code it inspected
    a generator that the import created
    the signature of a function, its docstring, or its free variables
"""

from __future__ import annotations

import gc
import inspect
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import (
    AsyncGeneratorType,
    CodeType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    ModuleType,
)

from harness.engines.call_recorder import CallRecorder
from harness.engines.loader import Codes, compile_files, load

Pair = tuple[CodeType, CodeType]
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
    """

    def __init__(self, codes: Codes, called: set[CodeType] | None) -> None:
        self.codes, self.is_known = codes, called is not None
        self._by_code: dict[_Key, list[FunctionType]] = {}
        self.called: set[CodeType] = set()
        if called is not None:
            files = {code.co_filename for code in codes.values()}
            self._by_code, suspended = _functions_by_code(files)
            self.called = called | suspended

    def plan(self, patched: Codes) -> list[Pair] | None:
        """Return the functions to replace so that the engine becomes that of these files.

        None if it has to be loaded again, since what has run would have run differently.
        """
        if not self.is_known:
            return None
        pairs: list[Pair] = []
        try:
            for file, code in patched.items():
                if code is not self.codes[file]:
                    pairs += self._pairs(self.codes[file], code)
        except (_CannotSwap, KeyError):
            return None
        return pairs

    def swap(self, pairs: Sequence[Pair]) -> None:
        """Replace code; afterwards, line numbers are those of the patched text."""
        for old, new in pairs:
            for function in self._by_code.get(_key(old), ()):
                function.__code__ = new

    def _pairs(self, old: CodeType, new: CodeType) -> Iterator[Pair]:
        """Yield the old and the new code of each function in `old`. Raises _CannotSwap."""
        is_function = bool(old.co_flags & inspect.CO_OPTIMIZED)
        if (not is_function or old in self.called) and differ(old, new):
            raise _CannotSwap
        if _key(old) in self._by_code and _interface(old) != _interface(new):
            raise _CannotSwap
        inner, replacements = _inner(old), _inner(new)
        if [code.co_qualname for code in inner] == [code.co_qualname for code in replacements]:
            for pair in zip(inner, replacements, strict=True):
                yield from self._pairs(*pair)
        elif any(_key(code) in self._by_code for code in _all_inner(old)):
            raise _CannotSwap
        if is_function:
            yield old, new


class Loaded:
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

    def swap(self, patched: Codes) -> bool:
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
    files: set[str],
) -> tuple[dict[_Key, list[FunctionType]], set[CodeType]]:
    """Return the functions defined in these files, by their code, and the code of generators.

    A generator keeps the code that its function had when it was called.
    """
    functions: dict[_Key, list[FunctionType]] = defaultdict(list)
    suspended: set[CodeType] = set()
    frozen = gc.get_freeze_count()
    gc.unfreeze()  # a test suite may have frozen its objects, which `get_objects` would leave out
    objects = gc.get_objects()
    if frozen:
        gc.freeze()
    for item in objects:
        if type(item) is FunctionType and item.__code__.co_filename in files:
            functions[_key(item.__code__)].append(item)
        elif (attribute := _GENERATORS.get(type(item))) is not None:
            code = getattr(item, attribute)
            if code.co_filename in files:
                suspended.add(code)
    return functions, suspended


_GENERATORS = {GeneratorType: "gi_code", CoroutineType: "cr_code", AsyncGeneratorType: "ag_code"}
"""The attribute of a generator that holds its code, by type."""


_Key = tuple[str, CodeType]


def _key(code: CodeType) -> _Key:
    """Return a key of equal code objects of one file: Python does not compare their files."""
    return code.co_filename, code


def _own(code: CodeType) -> Sequence[object]:
    """Return what a code object does, without line numbers and the code of nested functions."""
    constants = [
        constant.co_qualname if isinstance(constant, CodeType) else _exact(constant)
        for constant in code.co_consts
    ]
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
