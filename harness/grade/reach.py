"""Which functions of an engine are called, and which a changed file replaces.

The recording starts before anything of a suite is imported, so this file imports little.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, FunctionType

from harness.engines.loading import FileCodes, Functions, Replacement, compile_files, differ

_setprofile, _getprofile = sys.setprofile, sys.getprofile
"""A graded suite gets others in their place: see `harness.grade.blinding`."""


class CodeCalls:
    """The code objects of all functions that are called while recording, or whose code is read.

    A decorator may create a function from the source or the bytecode of another one. The new
    function then depends on that code too.
    """

    def __init__(self) -> None:
        self._called: dict[int, CodeType] = {}  # by `id`, since comparing code is slow
        self.notes_inspections, self._records = True, False

    def start(self) -> None:
        """Start to record, in this thread and in those that start later."""
        if self.notes_inspections:
            sys.addaudithook(self._note_inspection)
        self.notes_inspections, self._records = False, True
        threading.setprofile(self._note)
        _setprofile(self._note)

    def stop(self) -> bool:
        """End the recording; return whether it is complete.

        Python stops profiling if the stack has no room left for the recording function.
        """
        complete = _getprofile() == self._note
        threading.setprofile(None)
        _setprofile(None)
        self._records = False
        return complete

    def take(self) -> Collection[CodeType]:
        """Return what has been called since the last call of this method."""
        called, self._called = self._called, {}
        return called.values()

    @contextmanager
    def recorded(self, into: dict[int, CodeType]) -> Iterator[None]:
        """Add what is called in this context to a table, and to any enclosing recording."""
        outer, self._called = self._called, {}
        try:
            yield
        finally:
            into |= self._called
            self._called |= outer

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            code = frame.f_code
            self._called[id(code)] = code

    def _note_inspection(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._records and event == "object.__getattr__" and arguments[1] == "__code__":
            function = arguments[0]
            if type(function) is FunctionType:
                self._records = False  # reading the code here raises the same event
                code = function.__code__
                self._records = True
                self._called[id(code)] = code


_OPTIMIZED = 0x1
"""The flag of a function's code, which that of a module or a class does not have."""

CALLS = CodeCalls()
"""The recording of this process."""

# ----- The functions of an engine -----


class Code:
    """The numbered functions of an engine; every process that reads its files numbers them alike.

    Parameters
    ----------
    root : Path
        The folder of the engine.
    sources : mapping from str to str
        Its files without a break, by their path below the root.
    files : mapping from str to CodeType, optional
        The same files, if they are compiled already.
    """

    def __init__(
        self, root: Path, sources: Mapping[str, str], files: FileCodes | None = None
    ) -> None:
        self.root, self.sources = root, sources
        self.files = compile_files(root, sources, ()) if files is None else files
        self.paths = {code.co_filename for code in self.files.values()}
        self._numbers = {
            (code.co_filename, code): number
            for number, code in enumerate(
                inner for code in self.files.values() for inner in _all_code(code)
            )
        }

    def numbers(self, codes: Iterable[CodeType]) -> set[int]:
        """Return the numbers of the code objects that belong to the engine."""
        own = [code for code in codes if code.co_filename in self.paths]
        return {self._numbers.get((code.co_filename, code), -1) for code in own}

    def public(self) -> dict[int, str]:
        """Return the names of the public functions and methods by their numbers."""
        functions = {
            number: code.co_qualname
            for (_, code), number in self._numbers.items()
            if code.co_flags & _OPTIMIZED
        }
        return {
            number: name
            for number, name in functions.items()
            if all(part.isidentifier() and part[0] != "_" for part in name.split("."))
        }

    def changed(self, pairs: Sequence[Replacement]) -> set[int]:
        """Return the numbers of the functions that behave differently after a swap."""
        return self.numbers(old for old, new in pairs if differ(old, new))

    def functions(self, called: Collection[CodeType] | None) -> Functions:
        """Return the function objects in this process; those in `called` have already run.

        With None, it is not known which of them have run.
        """
        if called is None:
            return Functions(self.files, None)
        return Functions(self.files, {code for code in called if code.co_filename in self.paths})


def _all_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_code(constant)
