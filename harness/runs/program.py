"""A whole program, run as it is written in the child; what it prints travels as it comes."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from harness.core.run import Failure, message_of
from harness.runs.trial import line_within
from harness.sandbox.confinement import Limits

LARGEST_PIECE = 65536
"""Bytes that travel at once."""


class Program(msgspec.Struct, frozen=True, tag="program"):
    """Python that prints, and where it stands."""

    source: str
    path: str
    line: int
    needs: tuple[str, ...] = ()
    """The modules that it imports beside NumPy and the engine."""
    limits: Limits = Limits()


class Printed(msgspec.Struct, frozen=True):
    """A frame: bytes that went to standard output."""

    data: bytes


class Ended(msgspec.Struct, frozen=True):
    """The last frame: the program is over, well or with a failure."""

    failure: Failure | None = None


def execute(program: Program, send: Callable[[Printed], None]) -> Ended:
    """Run the program; text that is no UTF-8 travels as escapes."""
    sys.dont_write_bytecode = True
    out = io.TextIOWrapper(
        io.BufferedWriter(_Sender(send)), "utf-8", "backslashreplace", line_buffering=True
    )
    sys.stdout = out
    try:
        code = compile("\n" * (program.line - 1) + program.source, program.path, "exec")
        exec(code, {"__name__": "__main__"})  # noqa: S102  it is code by design
        out.flush()
    except BaseException as error:
        with contextlib.suppress(BaseException):
            out.flush()
        where = line_within(program.source, program.path, program.line, error)
        return Ended(Failure("the program", type(error).__name__, message_of(error), where))
    return Ended()


class _Sender(io.RawIOBase):
    """A stream whose every piece is a frame."""

    def __init__(self, send: Callable[[Printed], None]) -> None:
        self._send = send

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data[:LARGEST_PIECE])
        self._send(Printed(piece))
        return len(piece)
