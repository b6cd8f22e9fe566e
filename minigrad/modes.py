"""Settings of a thread, switched by a `with` block: whether ops are recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

recording: ContextVar[bool] = ContextVar("recording", default=True)
"""Whether ops are recorded: not inside `no_grad`."""


@contextmanager
def no_grad() -> Iterator[None]:
    """Disable recording inside; `with no_grad():` or `@no_grad()`. Affects only this thread."""
    token = recording.set(False)
    try:
        yield
    finally:
        recording.reset(token)
