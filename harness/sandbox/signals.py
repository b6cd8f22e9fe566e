"""Requests to end: whatever is under way is tidied up first, as with Ctrl-C."""

from __future__ import annotations

import signal
from types import FrameType


class Terminated(SystemExit):
    """This process was asked to end; its exit status says by which signal."""


def end_on_request() -> None:
    """Have requests to end raise Terminated; one that is ignored, as under nohup, stays so."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, terminate)


def terminate(number: int, _frame: FrameType | None) -> None:
    """Raise Terminated; a second request does not interrupt the tidying up."""
    signal.signal(number, signal.SIG_IGN)
    raise Terminated(128 + number)
