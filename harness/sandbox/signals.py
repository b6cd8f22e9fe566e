"""Requests to end this process: they raise an exception, so that it can clean up."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(SystemExit):
    """A signal requested that this process end; the exit status says which one."""

    reported = False
    """Whether the user has been told."""


@contextmanager
def requests_raised() -> Iterator[None]:
    """Raise Terminated on SIGINT, SIGTERM and SIGHUP, unless they are ignored, as under nohup.

    SIGINT does not raise KeyboardInterrupt, which libraries catch and turn into something else.
    After the first request, all others are ignored until this process ends.
    """
    handlers = {number: signal.getsignal(number) for number in _REQUESTS}
    for number, handler in handlers.items():
        if handler in _DEFAULT:
            signal.signal(number, terminate)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if signal.getsignal(number) is terminate:
                signal.signal(number, handler)


def broken_pipe() -> Terminated:
    """Return the request to end silently because a pipe has no reader, as after SIGPIPE."""
    request = Terminated(128 + getattr(signal, "SIGPIPE", 13))
    request.reported = True
    return request


def terminate(number: int, _frame: FrameType | None) -> None:
    """Raise Terminated, and ignore further requests while this process cleans up."""
    ignore_requests()
    raise Terminated(128 + number)


def ignore_requests() -> None:
    """Ignore requests to end this process, since it is already ending."""
    for number in _REQUESTS:
        if signal.getsignal(number) in (*_DEFAULT, terminate):
            signal.signal(number, signal.SIG_IGN)


_REQUESTS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]

_DEFAULT = signal.SIG_DFL, signal.default_int_handler
