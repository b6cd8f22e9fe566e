"""Running a task in a child process that can do no harm to this one.

The child is forked where that can be done, and else a fresh interpreter; both speak the same
frames, one for each ticket that they are asked with. It is confined
(see `harness.sandbox.confinement`) and killed whole. After any abnormal end the remaining probes
start in a fresh child.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Protocol

import msgspec

from harness.core.run import Failure, Run
from harness.core.vocabulary import visible
from harness.engines.loader import compile_ahead
from harness.engines.survey import ATTEMPT_MARKER, STEPS, Survey, SurveyStep
from harness.runs.child import (
    LARGEST_FRAME,
    TICKET,
    Frame,
    Job,
    Loaded,
    Spent,
    Task,
    be_the_child,
    decode_frame,
    hooks_of,
)
from harness.runs.program import Ended, Printed, Program
from harness.sandbox.confinement import Limits, worlds_are_granted

MOST_PRINTED = 8_000
"""Bytes; a program that prints more is stopped."""

START_UP = 60.0
"""Seconds that a fresh interpreter may take to come to its task, on a busy machine."""

_OF_TIME = {"TimeLimit", "ProcessorTimeLimit"}

UNREPEATABLE = {"TimeLimit", "ProcessExit", "ForgedResult", "MemoryError"} | {
    each.name for each in signal.Signals
}
"""Types of failures that depend on the machine and the day as well as on the program."""


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
    if limits:
        job = msgspec.structs.replace(job, limits=limits)
    start = _starter(job, fork)
    runs: list[Run] = []
    while len(runs) < len(job.items):
        rest = msgspec.structs.replace(job, items=job.items[len(runs) :])
        with _scratch() as folder:
            child = start(rest, folder)
            try:
                runs += _listen(child, rest)
            finally:
                child.end()
    return runs


def run_program(
    program: Program, limits: Limits | None = None, *, fork: bool | None = None
) -> Printout:
    """What the program prints to standard output, whatever happens."""
    if limits:
        program = msgspec.structs.replace(program, limits=limits)
    with _scratch() as folder:
        child = _starter(program, fork)(program, folder)
        try:
            return _collect(child, program.limits)
        finally:
            child.end()


def run_survey(task: Survey, *, fork: bool | None = None) -> list[SurveyStep]:
    """What each step of a survey found; the last has a failure where not all could be done."""
    found: list[SurveyStep] = []
    with _scratch() as folder:
        child = _starter(task, fork)(task, folder)
        try:
            for step in STEPS:
                frame = child.ask(task.limits.seconds)
                if not isinstance(frame, SurveyStep):
                    dialect = found[-1].dialect if found else task.dialect
                    failure = _why(child, frame, task.limits, step)
                    under_way = child.last_words.rpartition(ATTEMPT_MARKER)[2].strip()
                    tried = [f"{under_way}: never came to an end"] if under_way else []
                    frame = SurveyStep(step, dialect, task.name, failure, tried)
                found.append(frame)
                if frame.failure:
                    break
        finally:
            child.end()
    return found


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


def _listen(child: _Child, job: Job) -> Iterator[Run]:
    """The child's runs, up to its end; an abnormal end is the run that was going on.

    If one before it may have caused that, it is not believed: what is left starts in a fresh child.
    """
    first = child.ask(job.limits.seconds)
    if not isinstance(first, Loaded) or first.failure is not None:
        reported = first.failure if isinstance(first, Loaded) else None
        raise EngineDoesNotLoad(reported or _why(child, first, job.limits, "the import"))
    for count, (index, loss) in enumerate(job.items):
        probe, frame = job.probes[index].name, child.ask(job.limits.seconds)
        if count and isinstance(frame, Spent):
            return
        if not (isinstance(frame, Run) and (frame.probe, frame.loss) == (probe, loss)):
            failure = _why(child, frame, job.limits, "the run")
            if count == 0 or failure.type in _OF_TIME:
                yield Run(probe, loss, failure=failure)
            return
        yield frame


def _collect(child: _Child, limits: Limits) -> Printout:
    """What arrives until the program ends, or has had its time or its share of text."""
    printed, failure = b"", None
    end = time.monotonic() + limits.seconds
    frame = child.ask(limits.seconds)
    while isinstance(frame, Printed):
        printed += frame.data
        if len(printed) > MOST_PRINTED:
            message = f"stopped after {MOST_PRINTED} bytes of text"
            failure = Failure("the program", "OutputLimit", message)
            break
        frame = child.next(max(0.0, end - time.monotonic()))
    else:
        if isinstance(frame, Ended):
            failure = frame.failure
        else:
            failure = _why(child, frame, limits, "the program")
    return Printout(visible(printed[:MOST_PRINTED].decode(errors="backslashreplace")), failure)


def _why(child: _Child, frame: object, limits: Limits, phase: str) -> Failure:
    if isinstance(frame, _Late):
        return Failure(phase, "TimeLimit", f"not done after {limits.seconds:g} seconds")
    status = child.end()
    said = f"; the last that it printed: {child.last_words}" if child.last_words else ""
    if frame is not None:
        message = "something that is no result, or not the one that was asked for, was sent"
        return Failure(phase, "ForgedResult", message)
    if status == -getattr(signal, "SIGXCPU", 0):
        message = f"more than {limits.cpu_seconds} seconds of processor time"
        return Failure(phase, "ProcessorTimeLimit", message)
    if status < 0:
        name = signal.Signals(-status).name
        killed = "the process was killed by a signal"
        if name == "SIGKILL":
            killed += ", as one that starts too many others is"
        return Failure(phase, name, killed + said)
    return Failure(phase, "ProcessExit", f"the process ended with status {status}{said}")


class _Late:
    """In place of a frame that did not arrive in time."""


class _Garbage:
    """In place of bytes that are no frame, or not the one that was asked for."""


class _Child:
    """A started child: what it is asked, what it answers, and how to be rid of it."""

    def __init__(self, process: _Process, asked: int, pipe: int, printed: int) -> None:
        self._process, self._ticket = process, b""
        self._asked: int | None = asked
        self._frames: queue.Queue[bytes | None] = queue.Queue(maxsize=1)
        self._printed = b""
        self._readers = [
            threading.Thread(target=read, args=(os.fdopen(descriptor, "rb"),), daemon=True)
            for read, descriptor in ((self._read, pipe), (self._overhear, printed))
        ]
        for reader in self._readers:
            reader.start()

    @property
    def last_words(self) -> str:
        """The end of what it printed, on one line."""
        return " ".join(visible(self._printed.decode(errors="backslashreplace")).split())[-200:]

    def wait_until_it_is_there(self) -> None:
        """Wait for the empty frame that a fresh interpreter sends before it is asked anything."""
        with contextlib.suppress(queue.Empty):
            if self._frames.get(timeout=START_UP) is None:
                self._frames.put(None)  # it has ended, which is for the one who asks to hear

    def ask(self, seconds: float) -> Answer:
        """Ask for the next frame, and wait for it."""
        self._ticket = os.urandom(TICKET)
        if self._asked is not None:
            with contextlib.suppress(OSError):  # it has ended, or closed what it should not have
                os.write(self._asked, self._ticket)
        return self.next(seconds)

    def next(self, seconds: float) -> Answer:
        """Another frame to the same question; None where the child has ended."""
        try:
            body = self._frames.get(timeout=seconds)
        except queue.Empty:
            return _Late()
        return None if body is None else decode_frame(body, self._ticket) or _Garbage()

    def end(self) -> int:
        """Kill all that belongs to it, and wait; its exit status, negative for a signal."""
        status = self._process.end()
        if self._asked is None:
            return status
        os.close(self._asked)
        self._asked = None  # the number may be another file's by now
        for _ in range(100):
            if not any(reader.is_alive() for reader in self._readers):
                break
            with contextlib.suppress(queue.Empty):  # so that a reader comes to the end of its pipe
                self._frames.get(timeout=0.01)
        return status

    def _read(self, pipe: IO[bytes]) -> None:
        """Frames, one after the other and not ahead of time, up to the first that is none."""
        with pipe, contextlib.suppress(OSError, ValueError):
            while len(head := pipe.read(4)) == 4:
                length = int.from_bytes(head, "big")
                body = pipe.read(length) if length <= LARGEST_FRAME else b""
                self._frames.put(body)
                if len(body) != length:
                    break
        self._frames.put(None)

    def _overhear(self, printed: IO[bytes]) -> None:
        """Whatever the child prints; only the end is kept."""
        with printed, contextlib.suppress(OSError, ValueError):
            while piece := printed.read1(65536):  # type: ignore[attr-defined]
                self._printed = (self._printed + piece)[-2000:]


class _Process(Protocol):
    """How to be rid of a process."""

    def end(self) -> int:
        """Kill it with all that belongs to it, and wait; as often as you like."""
        ...


class _Forked:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None

    def end(self) -> int:
        if self._status is None:
            ended, status = self._reap_soon()
            if not ended:
                # Whoever looks after the engine takes its descendants along.
                _signal(os.kill, self.pid, signal.SIGTERM)
                ended, status = self._reap_soon()
            _signal(os.killpg, self.pid, signal.SIGKILL)
            if not ended:
                _signal(os.kill, self.pid, signal.SIGKILL)  # it may not have got its group yet
                _, status = os.waitpid(self.pid, 0)
            self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def _reap_soon(self) -> tuple[int, int]:
        """Wait for it to end by itself, but not for long."""
        for pause in (0.0002, 0.0005, 0.001, *[0.002] * 50):
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                return ended, status
            time.sleep(pause)
        return 0, 0


class _Spawned:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def end(self) -> int:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.1)
        self.process.terminate()  # whoever looks after the engine takes its descendants along
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.1)
        if hasattr(os, "killpg"):
            _signal(os.killpg, self.process.pid, signal.SIGKILL)
        self.process.kill()
        return self.process.wait()


def _signal(send: Callable[[int, int], None], whom: int, what: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(whom, what)


def _fork(task: Task, folder: Path) -> _Child:
    if isinstance(task, Job):
        compile_ahead(Path(task.root), task.sources, task.sites, hooks_of(task))
    worlds_are_granted()  # found out here, once for all children
    (asked, ask), (read, write), (overhear, printed) = os.pipe(), os.pipe(), os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of threads at a fork; the only ones are NumPy's idle pool and our
        # readers, and the child touches neither.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.setsid()  # the terminal is not the engine's
            be_the_child(task, folder, asked, write, printed)
        os._exit(1)
    for descriptor in (asked, write, printed):
        os.close(descriptor)
    return _Child(_Forked(pid), ask, read, overhear)


def _spawn(task: Task, folder: Path) -> _Child:
    process = subprocess.Popen(
        [sys.executable, "-B", "-c", "from harness.runs.child import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)},
        start_new_session=True,
    )
    ask, read, overhear = (
        _taken(stream) for stream in (process.stdin, process.stdout, process.stderr)
    )
    data = msgspec.msgpack.encode(task)
    with contextlib.suppress(OSError):  # it has ended already, and its status will say how
        view = memoryview(len(data).to_bytes(8, "big") + data)
        while view:
            view = view[os.write(ask, view) :]
    child = _Child(_Spawned(process), ask, read, overhear)
    child.wait_until_it_is_there()
    return child


def _taken(stream: IO[bytes] | None) -> int:
    """The descriptor of a pipe to a process, which its object no longer closes."""
    assert stream is not None
    with stream:
        return os.dup(stream.fileno())


Answer = Frame | _Late | _Garbage | None
"""What comes of asking a child for a frame; None where it has ended."""


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    _sweep()
    folder = Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-"))
    try:
        yield folder
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder, however deep it is; no link leads out of it."""
    pending = [folder]
    with contextlib.suppress(OSError):
        for here in pending:
            for entry in list(os.scandir(here)):
                path = Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    path.chmod(0o700)  # and to the top, so that no path grows too long
                    pending.append(path.rename(folder / os.urandom(8).hex()))
                else:
                    path.unlink()
        for here in reversed(pending):
            here.rmdir()


@cache
def _sweep() -> None:
    """Remove, once, the scratch folders of processes that were killed before they could do it."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        owner = folder.name.removeprefix(_SCRATCH).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and Path("/proc/self").exists():
            _remove(folder)


_SCRATCH = "breaklab-"
