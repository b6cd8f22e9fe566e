"""Requests to end this process: they raise an exception, so that it can clean up, as on Ctrl-C."""

from __future__ import annotations

import signal
from types import FrameType


class Terminated(SystemExit):
    """A signal requested that this process end; the exit status says which one."""


def end_on_request() -> None:
    """Raise Terminated on SIGTERM and SIGHUP, unless they are ignored, as under nohup."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, terminate)


def terminate(number: int, _frame: FrameType | None) -> None:
    """Raise Terminated; the same signal is ignored from then on, while this process cleans up."""
    signal.signal(number, signal.SIG_IGN)
    raise Terminated(128 + number)
