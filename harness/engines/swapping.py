"""Swapping: replace the code of a loaded engine's functions with that of the patched text.

A function object refers to its code object, so everything that refers to the function (a class, a
table of rules, a closure) sees the replacement. The result equals the engine loaded from the
patched text, unless the import itself would have run differently. So an engine cannot be swapped if
the patch changes

    the body of a module or a class: constants, attributes, decorators, default arguments
    a function that was called during the import, such as a decorator
    the signature of a function, or its free variables
"""

from __future__ import annotations

import gc
import inspect
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType

from harness.engines.loader import Codes, compile_files, load


class Loaded:
    """An engine that was loaded from its text; it can become a patched version of it, once."""

    def __init__(self, module: str, root: Path, sources: Mapping[str, str]) -> None:
        """Import the engine. Raises what the import raises."""
        self.sources = dict(sources)
        self.codes = compile_files(root, sources, ())  # the code objects that `load` executes
        self.called: set[CodeType] = set()
        files = {str(root / file) for file in sources}

        def note(frame: FrameType, _event: str, _argument: object) -> None:
            if frame.f_code.co_filename in files:
                self.called.add(frame.f_code)

        sys.settrace(note)
        try:
            self.module: ModuleType = load(module, root, sources)
        finally:
            sys.settrace(None)
        self._functions = _functions_by_code(files)

    def swap(self, patched: Codes) -> bool:
        """Replace the functions' code with that of these files; return whether it was possible.

        If not, nothing is changed. Afterwards, line numbers are those of the patched text.
        """
        pairs: list[tuple[CodeType, CodeType]] = []
        try:
            for file, code in patched.items():
                if code is not self.codes[file]:
                    pairs += self._pairs(self.codes[file], code)
        except (_CannotSwap, KeyError):
            return False
        for old, new in pairs:
            for function in self._functions.get(id(old), ()):
                function.__code__ = new
        return True

    def _pairs(self, old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
        """Yield the old and the new code of each function in `old`. Raises _CannotSwap."""
        is_function = bool(old.co_flags & inspect.CO_OPTIMIZED)
        if _own(old) != _own(new) and (not is_function or old in self.called):
            raise _CannotSwap
        if id(old) in self._functions and _interface(old) != _interface(new):
            raise _CannotSwap
        inner, replacements = _inner(old), _inner(new)
        if [code.co_qualname for code in inner] == [code.co_qualname for code in replacements]:
            for pair in zip(inner, replacements, strict=True):
                yield from self._pairs(*pair)
        elif any(id(code) in self._functions for code in _all_inner(old)):
            raise _CannotSwap
        if is_function:
            yield old, new


class _CannotSwap(Exception):
    """The patched engine must be loaded instead."""


def _functions_by_code(files: set[str]) -> dict[int, list[FunctionType]]:
    """Return the function objects defined in these files, by the `id` of their code object."""
    functions: dict[int, list[FunctionType]] = defaultdict(list)
    for item in gc.get_objects():
        if type(item) is FunctionType and item.__code__.co_filename in files:
            functions[id(item.__code__)].append(item)
    return functions


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
    )


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
