"""Running a task in a child process that can do no harm to this one.

The child is forked where that can be done, and else a fresh interpreter; both speak the same
frames. It has a process group of its own, a scratch working directory, a time limit a probe, and it
is killed whole. After any abnormal end the remaining probes start in a fresh child.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import msgspec

from harness.loader import compile_ahead
from harness.program import Ended, Printed, Program
from harness.run import Failure, Run
from harness.worker import KINDS, Frame, Job, Loaded, Task, quiet, serve

LARGEST_FRAME = 64 * 1024 * 1024
"""Bytes; a child that announces more is not believed."""

MOST_PRINTED = 8_000
"""Bytes; a program that prints more is stopped."""

UNREPEATABLE = {"TimeLimit", "ProcessExit", "MemoryError"} | {each.name for each in signal.Signals}
"""Types of failures that depend on the machine and the day as well as on the program."""


@dataclass(frozen=True)
class Limits:
    """What a child may use."""

    seconds: float = 10.0
    """For the import of the engine, for each run with its measurements, or for a whole program."""


@dataclass(frozen=True)
class Printout:
    """What a program printed until it ended, or was ended."""

    text: str
    failure: Failure | None


class EngineDoesNotLoad(Exception):
    """The engine's import failed, hung or died; `failure` says how."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))


def run_isolated(job: Job, limits: Limits | None = None, *, fork: bool | None = None) -> list[Run]:
    """The runs of the job's items, in their order, one for each whatever happens.

    Raises EngineDoesNotLoad where no probe could even start.
    """
    limits = limits or Limits()
    start = _starter(job, fork)
    runs: list[Run] = []
    while len(runs) < len(job.items):
        rest = msgspec.structs.replace(job, items=job.items[len(runs) :])
        with _scratch() as folder:
            child = start(rest, folder)
            try:
                runs += _listen(child, rest, limits)
            finally:
                child.end()
    return runs


def run_program(
    program: Program, limits: Limits | None = None, *, fork: bool | None = None
) -> Printout:
    """What the program prints to standard output, whatever happens."""
    with _scratch() as folder:
        child = _starter(program, fork)(program, folder)
        try:
            return _collect(child, limits or Limits())
        finally:
            child.end()


def _starter(task: Task, fork: bool | None) -> Callable[[Task, Path], _Child]:
    return _fork if (_can_fork(task) if fork is None else fork) else _spawn


def _can_fork(task: Task) -> bool:
    """Not where a library that it imports is loaded here already, and may have started threads.

    They would be missing in the child, and PyTorch waits for them for ever.
    """
    if isinstance(task, Program):
        libraries = task.needs
    else:
        libraries = () if task.sources else (task.dialect.module,)
    return hasattr(os, "fork") and not any(name in sys.modules for name in libraries)


def _listen(child: _Child, job: Job, limits: Limits) -> Iterator[Run]:
    """The child's runs, up to its end; an abnormal end is the run that was going on."""
    frames = _Reader(child.pipe)
    first = frames.next(limits.seconds)
    if isinstance(first, Loaded) and first.failure is None:
        for index, loss in job.items:
            probe, frame = job.probes[index].name, frames.next(limits.seconds)
            if isinstance(frame, Run) and (frame.probe, frame.loss) == (probe, loss):
                yield frame
                continue
            failure = _why(child, frame, limits, "the run")
            yield Run(probe, loss, failure=failure)
            return
    else:
        reported = first.failure if isinstance(first, Loaded) else None
        raise EngineDoesNotLoad(reported or _why(child, first, limits, "the import"))


def _collect(child: _Child, limits: Limits) -> Printout:
    """What arrives until the program ends, or has had its time or its share of text."""
    frames, printed, failure = _Reader(child.pipe), b"", None
    end = time.monotonic() + limits.seconds
    while isinstance(frame := frames.next(max(0.0, end - time.monotonic())), Printed):
        printed += frame.data
        if len(printed) > MOST_PRINTED:
            message = f"stopped after {MOST_PRINTED} bytes of text"
            failure = Failure("the program", "OutputLimit", message)
            break
    else:
        if isinstance(frame, Ended):
            failure = frame.failure
        else:
            failure = _why(child, frame, limits, "the program")
    return Printout(_visible(printed[:MOST_PRINTED].decode(errors="backslashreplace")), failure)


def _visible(text: str) -> str:
    """With escapes for what would control a terminal instead of being read."""
    return re.sub(r"[^\n\t\x20-\x7e\xa0-\U0010ffff]", lambda one: f"\\x{ord(one[0]):02x}", text)


def _why(child: _Child, frame: object, limits: Limits, phase: str) -> Failure:
    if isinstance(frame, _Late):
        return Failure(phase, "TimeLimit", f"not done after {limits.seconds:g} seconds")
    status = child.end()
    if status < 0:
        return Failure(phase, signal.Signals(-status).name, "the process was killed by a signal")
    return Failure(phase, "ProcessExit", f"the process ended with status {status}")


class _Late:
    """In place of a frame that did not arrive in time."""


class _Reader:
    """Frames from a pipe, read by a thread so that waiting for one can have a limit."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._frames: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(pipe,), daemon=True).start()

    def next(self, seconds: float) -> Frame | _Late | None:
        """The next frame, None at the end (or at anything that is no frame)."""
        try:
            return self._frames.get(timeout=seconds)
        except queue.Empty:
            return _Late()

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe, contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
            while (head := pipe.read(4)) and len(head) == 4:
                length = int.from_bytes(head, "big")
                body = pipe.read(length) if 0 < length <= LARGEST_FRAME else b""
                if len(body) != length or body[:1] not in KINDS:
                    break
                self._frames.put(msgspec.msgpack.decode(body[1:], type=KINDS[body[:1]]))
        self._frames.put(None)


class _Child(Protocol):
    """A started child: where it writes, and how to be rid of it."""

    pipe: IO[bytes]

    def end(self) -> int:
        """Kill its process group, wait for it; its exit status, negative for a signal."""
        ...


class _Forked:
    def __init__(self, pid: int, pipe: IO[bytes]) -> None:
        self.pid, self.pipe, self._status = pid, pipe, None

    _status: int | None

    def end(self) -> int:
        if self._status is None:
            ended, status = _reap_soon(self.pid)
            _kill_group(self.pid)
            if not ended:
                _, status = os.waitpid(self.pid, 0)
            self._status = os.waitstatus_to_exitcode(status)
        return self._status


def _reap_soon(pid: int) -> tuple[int, int]:
    """Wait for a child that has closed its pipe to end by itself, but not for long."""
    for _ in range(50):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return ended, status
        threading.Event().wait(0.002)
    return 0, 0


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _fork(task: Task, folder: Path) -> _Child:
    if isinstance(task, Job):
        compile_ahead(Path(task.root), task.sources, task.sites)
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of threads at a fork; the only ones are NumPy's idle pool and our
        # readers, and the child touches neither.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        status = 1
        with contextlib.suppress(BaseException):
            os.setpgid(0, 0)
            os.closerange(3, writer)  # whatever else the parent has open is not the child's
            os.closerange(writer + 1, os.sysconf("SC_OPEN_MAX"))
            os.chdir(folder)
            quiet()
            serve(task, writer)
            status = 0
        os._exit(status)
    os.close(writer)
    with contextlib.suppress(PermissionError, ProcessLookupError):
        os.setpgid(pid, pid)  # both sides do it, so that neither can come too late
    return _Forked(pid, os.fdopen(reader, "rb"))


class _Spawned:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self.process, self.pipe = process, process.stdout

    def end(self) -> int:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.1)
        if hasattr(os, "killpg"):
            _kill_group(self.process.pid)
        self.process.kill()
        return self.process.wait()


def _spawn(task: Task, folder: Path) -> _Child:
    process = subprocess.Popen(
        [sys.executable, "-B", "-m", "harness.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)},
        start_new_session=True,
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(msgspec.msgpack.encode(task))
        process.stdin.close()
    return _Spawned(process)


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="breaklab-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
