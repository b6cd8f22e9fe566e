"""In the child process: drop what was inherited, confine itself, and answer tickets with frames.

A child of the host calls `run_child`; a fresh interpreter calls `main`. Steps that must not affect
the child are computed in forks of it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from harness.core.run import message_of
from harness.sandbox.confinement import confine
from harness.sandbox.fork import (
    Sender,
    adopt_descendants,
    close_all_but,
    die_with_parent,
    end_others,
    exit_with,
)
from harness.sandbox.frames import (
    LARGEST_BODY,
    TICKET_SIZE,
    Frame,
    InterpreterOrder,
    Pipes,
    encode_frame,
    write_all,
    write_frame,
)
from harness.sandbox.limits import Limits, empty_folder, restart_cpu_limit

_read = os.read  # code under test may replace the name in the module


class Line:
    """The child's end of the line to the main process: the pipes, and the last ticket."""

    def __init__(self, pipes: Pipes) -> None:
        self.pipes, self.ticket = pipes, b""

    def send(self, frame: Frame) -> None:
        """Send a frame; it may precede the one that answers the request."""
        write_frame(self.pipes.frames, frame, self.ticket)

    def read_message(self) -> bytes:
        """Return the message that the main process has sent with its last request."""
        length = int.from_bytes(read_exactly(self.pipes.tickets, 4), "big")
        return read_exactly(self.pipes.tickets, length)


ChildWork = Callable[[Line], Iterator[Frame | bytes]]
"""What a child does: each frame is computed when it is requested; bytes are sent unchanged."""


def main() -> None:
    """Read an order from standard input, and carry it out as the child."""
    length = int.from_bytes(read_exactly(0, 8), "big")
    order = msgspec.msgpack.decode(read_exactly(0, length), type=InterpreterOrder)
    work = partial(import_function(order.function), order.data)
    os.write(1, bytes(4))  # an empty frame: the interpreter has started
    pipes = Pipes(os.dup(0), os.dup(1), os.dup(2))
    run_child(work, pipes, order.limits, partial(confine, Path.cwd(), order.limits))


def import_function(name: str) -> Callable[..., Any]:
    """Import `module:function`, such as `harness.diagnostics.gradcheck:measure`."""
    module, _, attribute = name.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return function


def run_child(
    work: ChildWork, pipes: Pipes, limits: Limits, confine_process: Callable[[], None]
) -> NoReturn:
    """Answer tickets with the frames of `work`, in the working directory, and end the process.

    Standard input is empty, and standard output and error go to `pipes.output`.
    """
    status = 1
    with contextlib.suppress(BaseException):
        report_errors(partial(_run_confined, work, pipes, limits, confine_process))
        status = 0
    os._exit(status)


def _run_confined(
    work: ChildWork, pipes: Pipes, limits: Limits, confine_process: Callable[[], None]
) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # the command line handles them
        signal.signal(number, signal.SIG_DFL)
    die_with_parent()
    close_all_but(0, 1, 2, *pipes)
    _redirect_streams(pipes.output)
    confine_process()
    serve(work, pipes, limits)


def report_errors(work: Callable[[], None]) -> None:
    """Call `work`, and write the exception that it raises to standard error before raising it."""
    try:
        work()
    except BaseException as error:  # for example from work that patches our modules
        with contextlib.suppress(BaseException):
            os.write(2, f"{type(error).__name__}: {message_of(error)}".encode())
        raise


def serve(work: ChildWork, pipes: Pipes, limits: Limits) -> None:
    """Answer each ticket with the next frame of `work`, while there is one."""
    line = Line(pipes)
    answers = work(line)
    while True:
        line.ticket = read_exactly(pipes.tickets, TICKET_SIZE)
        restart_cpu_limit(limits)
        answer = next(answers, None)
        if answer is None:
            return
        if isinstance(answer, bytes):
            write_all(pipes.frames, answer)
        else:
            line.send(answer)


def read_exactly(descriptor: int, count: int) -> bytes:
    """Read `count` bytes; end the process if the pipe is closed."""
    data = bytearray()
    while len(data) < count:
        piece = _read(descriptor, count - len(data))
        if not piece:
            os._exit(0)
        data += piece
    return bytes(data)


def _redirect_streams(output: int) -> None:
    """Keep the child away from the user's terminal."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for stream, target in enumerate((nothing, output, output)):
        os.dup2(target, stream)
    os.close(nothing)
    os.close(output)
    # A forked child inherits Python's streams, which need not refer to descriptors 0, 1 and 2.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.stderr = sys.stdout
    faulthandler.disable()


# ----- Steps in forks -----
#
# A step that is computed in a fork leaves the child itself unchanged. A fork has no access to the
# pipes for tickets and frames. The child forwards the ticket of each request to the fork, and the
# fork's answers without decoding them: the main process validates them like any other. Before it
# forwards a fork's last answer, it kills the fork and every process that the fork has left behind,
# so that none of them affects the next step.

ComputeStep = Callable[[int], tuple[Frame, bool]]
"""Returns the frame of a step, and whether the process that computed it must end."""

_FORK_PATIENCE = 5.0
"""Seconds that a fork may take to end after it has closed its pipe."""

_GOES_ON, _ENDS = b".", b"!"


def compute_in_forks(
    count: int, step: ComputeStep, may_go_on: Callable[[int], bool], line: Line, limits: Limits
) -> Iterator[bytes]:
    """Yield the answers of the first `count` steps, each computed in a fork of this process.

    A fork also computes the following steps until a step says that its process must end, or
    `may_go_on` is false for its position, whatever the fork claims. If the fork ends for any other
    reason, this process ends in the same way.
    """
    gc.freeze()  # otherwise a collection in a fork would copy every page
    adopt_descendants()
    position = 0
    while position < count:
        fork = _SteppingFork(range(position, count), step, line, limits)
        ended = False
        while not ended:
            answer, ended = fork.answer(line)
            ended = ended or position + 1 == count or not may_go_on(position)
            if ended:
                fork.close()
            yield answer
            position += 1


class _SteppingFork:
    """A fork of this process that computes steps, and the pipe for its tickets."""

    def __init__(self, steps: range, step: ComputeStep, line: Line, limits: Limits) -> None:
        self._scratch = Path.cwd()
        tickets, self._tickets = os.pipe()

        def serve(answers: int) -> None:
            report_errors(lambda: serve_steps(steps, step, tickets, answers, limits))

        self._fork = Sender(serve, closed=(*line.pipes[:2], self._tickets))
        os.close(tickets)

    def answer(self, line: Line) -> tuple[bytes, bool]:
        """Return the answer to a request, and whether the fork ends after it.

        If the fork has ended instead, forward what it sent, and end this process in the same way.
        """
        with contextlib.suppress(OSError):  # it has ended
            os.write(self._tickets, line.ticket)
        head = self._read(4, b"", line)
        length = int.from_bytes(head, "big")
        if length > LARGEST_BODY:  # the main process refuses it
            return head, True
        answer = head + self._read(length, head, line)
        return answer, self._read(1, b"", line) != _GOES_ON

    def close(self) -> None:
        """Kill the fork and the processes it has left, and undo its changes to shared resources."""
        os.close(self._tickets)
        self._fork.close()
        end_others(isolated=False)
        _reset_output()
        empty_folder(self._scratch)
        os.chdir(self._scratch)  # it may have been replaced

    def _read(self, count: int, before: bytes, line: Line) -> bytes:
        """Read `count` bytes. If the fork ends first, forward `before` and these, and end."""
        data = self._fork.read_exactly(count)
        if len(data) < count:
            write_all(line.pipes.frames, before + data)
            self._fork.wait(time.monotonic() + _FORK_PATIENCE)
            exit_with(self._fork.kill())  # it may still run, without its pipe
        return data


def _reset_output() -> None:
    """Reset the flags of the pipe that all forks print to, such as non-blocking and signals."""
    import fcntl  # not on Windows

    fcntl.fcntl(1, fcntl.F_SETFL, 0)


def serve_steps(
    steps: range, step: ComputeStep, tickets: int, answers: int, limits: Limits
) -> None:
    """In a fork: answer each ticket with a step's frame, then a byte that says whether to go on."""
    for position in steps:
        ticket = read_exactly(tickets, TICKET_SIZE)
        restart_cpu_limit(limits)
        frame, last = step(position)
        write_all(answers, encode_frame(frame, ticket) + (_ENDS if last else _GOES_ON))
        if last:
            return
