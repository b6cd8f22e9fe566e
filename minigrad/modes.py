"""What a `with` switches for its thread: whether ops are recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

recording: ContextVar[bool] = ContextVar("recording", default=True)
"""Whether ops are recorded: not inside `no_grad`."""


@contextmanager
def no_grad() -> Iterator[None]:
    """Record no graph inside; `with no_grad():` or `@no_grad()`. Holds for this thread only."""
    token = recording.set(False)
    try:
        yield
    finally:
        recording.reset(token)
