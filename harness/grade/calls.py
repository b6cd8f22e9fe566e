"""Recording which functions are called or inspected: by the collection, by a fixture, by a test."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType


class CodeCalls:
    """The code objects of all functions that are called while recording, or whose code is read.

    A decorator may create a function from the source or the bytecode of another one. The new
    function then depends on that code too.
    """

    def __init__(self) -> None:
        self._called: dict[int, CodeType] = {}  # by `id`, since comparing code is slow
        self._audited = self._records = False

    def start(self) -> None:
        """Start to record, in this thread and in those that start later."""
        if not self._audited:
            sys.addaudithook(self._note_inspection)
        self._audited = self._records = True
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def stop(self) -> bool:
        """End the recording; return whether it is complete.

        Python stops profiling if the stack has no room left for the recording function.
        """
        complete = sys.getprofile() == self._note
        threading.setprofile(None)
        sys.setprofile(None)
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


CALLS = CodeCalls()
"""The recording of this process."""
