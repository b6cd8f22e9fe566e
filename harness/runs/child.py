"""What the child does with a task: a job (`harness.runs.job`), a survey of an engine, or a program.

Each reply is computed when the main process requests it. The child is confined: see
`harness.sandbox.child`. What a program prints is sent piece by piece.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np

from harness.core import PACKAGES
from harness.core.run import failure_of
from harness.core.vocabulary import Phase
from harness.engines.engine import OUR_ENGINE
from harness.engines.loading import load
from harness.engines.survey import Survey
from harness.runs.job import prepare_job, run_job
from harness.runs.observer import OtherFiles
from harness.runs.protocol import (
    ChildTask,
    Job,
    Program,
    ProgramEnd,
    ProgramOutput,
    decode_task,
    encode_or_fail,
    encode_reply,
)
from harness.runs.trial import compile_at, line_within
from harness.sandbox.child import ChildWork, Line
from harness.sandbox.frames import Frame
from harness.sandbox.host import Prepare


def open_host(*libraries: str) -> Prepare:
    """In a host: import the libraries, and return the function that prepares tasks for children.

    Besides installed libraries, only the unpatched files of our own engine are executed here;
    everything else is only compiled.
    """
    _ignore_warnings()
    for library in libraries:
        with contextlib.suppress(BaseException):  # the child reports it
            importlib.import_module(library)
    return _prepare


def _prepare(data: bytes) -> ChildWork:
    task = decode_task(data)
    if isinstance(task, Job):
        prepare_job(task)
    elif isinstance(task, Survey):
        importlib.import_module(_EXPLORER)  # once in the host, rather than in each child
    return partial(run_task, task, forks=True)


_EXPLORER = "harness.engines.survey.explorer"


def run_encoded_task(data: bytes, line: Line) -> Iterator[Frame | bytes]:
    """Like `run_task`, for a task that was sent to a fresh interpreter."""
    return run_task(decode_task(data), line, forks=False)


def run_task(task: ChildTask, line: Line, *, forks: bool) -> Iterator[Frame | bytes]:
    """Yield the frames that answer a task; what a program prints is sent as it runs.

    With `forks`, the runs of a job are computed in forks of this process.
    """
    _ignore_warnings()
    if isinstance(task, Program):
        yield encode_or_fail(_execute(task, lambda printed: line.send(encode_reply(printed))))
    elif isinstance(task, Survey):
        from harness.engines.survey.explorer import survey  # only a few tasks need it

        files = OtherFiles(Path(task.root), task.sources)
        files.watch()
        for reply in survey(task):
            yield encode_or_fail(msgspec.structs.replace(reply, other_files=files.opened))
    else:
        yield from run_job(task, line, forks=forks)


def _ignore_warnings() -> None:
    warnings.simplefilter("ignore")
    np.seterr(all="warn")


# ----- A program -----

LARGEST_PIECE = 65536
"""Bytes that are sent at once."""


def _execute(program: Program, send: Callable[[ProgramOutput], None]) -> ProgramEnd:
    """Run the program; characters that UTF-8 cannot encode are sent as escapes."""
    sys.dont_write_bytecode = True
    out = io.TextIOWrapper(
        io.BufferedWriter(_SendingStream(send)), "utf-8", "backslashreplace", line_buffering=True
    )
    sys.stdout = out
    sys.meta_path.insert(0, _OurEngine())
    try:
        if program.sources:
            load(OUR_ENGINE, Path(program.root), program.sources)
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


class _SendingStream(io.RawIOBase):
    """A stream that sends each piece that is written to it."""

    def __init__(self, send: Callable[[ProgramOutput], None]) -> None:
        self._send = send

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data[:LARGEST_PIECE])
        self._send(ProgramOutput(piece))
        return len(piece)
