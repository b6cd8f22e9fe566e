"""Recording which functions of an engine are called, and by which."""

from __future__ import annotations

import sys
from collections.abc import Collection
from types import CodeType, FrameType

Call = tuple[CodeType, CodeType | None]
"""The code of a function, and the code that called it, if any."""


class CallRecorder:
    """Records the calls of functions in some files, in this thread."""

    def __init__(self, files: Collection[str]) -> None:
        self._files = frozenset(files)
        self._calls: dict[tuple[int, int], Call] = {}  # by `id`, since comparing code is slow

    def start(self) -> None:
        """Start recording, and discard what was recorded before."""
        self._calls.clear()
        sys.settrace(self._note)

    def stop(self) -> list[Call] | None:
        """Return the different calls, in order; None if they could not all be recorded.

        Python stops tracing when the stack has no room left for the trace function.
        """
        lost = sys.gettrace() != self._note
        sys.settrace(None)
        return None if lost else list(self._calls.values())

    def _note(self, frame: FrameType, _event: str, _argument: object) -> None:
        code = frame.f_code
        if code.co_filename in self._files:
            caller = frame.f_back.f_code if frame.f_back else None
            self._calls[id(code), id(caller)] = code, caller
