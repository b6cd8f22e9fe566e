"""The contract of a reader: a valid result or one error with a remedy, in a short time."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from harness.core.errors import BreaklabError, PageError

Result = TypeVar("Result")

PATIENCE = 300.0
"""Seconds; what is read here takes some thousandths."""


class Hangs(BaseException):
    """The reader took too long; not an `Exception`, which a reader might catch."""


def read(reader: Callable[[], Result], text: str | None = None) -> Result | None:
    """The reader's result, or None if it raises an error of the required kind.

    With the `text` of the file, the error's line must be one of its lines or the one after.
    """
    try:
        with in_time():
            return reader()
    except BreaklabError as error:
        refused = error
    problem, remedy, _ = str(refused).partition("remedy: ")
    assert problem.strip(), refused
    assert remedy, refused
    if isinstance(refused, PageError) and text is not None:
        assert 1 <= refused.line <= lines_of(text) + 1, refused
    return None


def lines_of(text: str) -> int:
    """The largest number of lines under any definition of a line end."""
    return max(1, len(text.splitlines()), len(text.split("\n")))


@contextmanager
def in_time() -> Iterator[None]:
    """Raise `Hangs` inside after `PATIENCE`, also in the middle of a regular expression."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  the protocol's arguments
        raise Hangs(f"not done after {PATIENCE} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
