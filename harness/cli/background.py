"""Work that goes on while the learner reads and answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")

_POLL = 0.1
"""Seconds after which a waiting main thread looks for signals: a join without a limit does not."""


class Background(Generic[Result]):
    """A function that is called in a thread of its own."""

    def __init__(self, function: Callable[[], Result]) -> None:
        self._function = function
        self._results: list[Result] = []
        self._error: BaseException | None = None
        # A daemon: a command that is stopped does not wait for it.
        self._thread = threading.Thread(target=self._call, daemon=True)
        self._thread.start()

    def result(self) -> Result:
        """Return what the function returns, or raise what it raises, once it is done."""
        while self._thread.is_alive():
            self._thread.join(_POLL)
        if self._error is not None:
            raise self._error
        return self._results[0]

    def _call(self) -> None:
        try:
            self._results.append(self._function())
        except BaseException as error:  # raised again in the thread that waits
            self._error = error
