"""A program that is run unchanged; what it prints is sent to the main process piece by piece."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from harness.core import PACKAGES
from harness.core.run import failure_of
from harness.core.vocabulary import Phase
from harness.engines.engine import OUR_ENGINE
from harness.runs.protocol import Output, Program, ProgramEnd
from harness.runs.trial import compile_at, line_within

LARGEST_PIECE = 65536
"""Bytes that are sent at once."""


def execute(program: Program, send: Callable[[Output], None]) -> ProgramEnd:
    """Run the program; characters that UTF-8 cannot encode are sent as escapes."""
    sys.dont_write_bytecode = True
    out = io.TextIOWrapper(
        io.BufferedWriter(_Sender(send)), "utf-8", "backslashreplace", line_buffering=True
    )
    sys.stdout = out
    sys.meta_path.insert(0, _OurEngine())
    try:
        code = compile_at(program.source, program.path, program.line)
        exec(code, {"__name__": "__main__"})  # noqa: S102  running it is the purpose
        out.flush()
    except BaseException as error:
        with contextlib.suppress(BaseException):
            out.flush()
        where = line_within(program.source, program.path, program.line, error)
        return ProgramEnd(failure_of(Phase.PROGRAM, error, where))
    return ProgramEnd()


class _OurEngine(MetaPathFinder):
    """Finds the reference engine beside the harness: programs import it by its name."""

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [str(PACKAGES)]) if name == OUR_ENGINE else None


class _Sender(io.RawIOBase):
    """A stream that sends each piece that is written to it."""

    def __init__(self, send: Callable[[Output], None]) -> None:
        self._send = send

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data[:LARGEST_PIECE])
        self._send(Output(piece))
        return len(piece)
