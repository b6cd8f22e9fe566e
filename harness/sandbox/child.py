"""In the child process: drop what was inherited, confine itself, and answer tickets with frames.

A child of the host calls `run_child`; a fresh interpreter calls `main`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from harness.core.run import message_of
from harness.sandbox.confinement import confine
from harness.sandbox.frames import TICKET_SIZE, Frame, Order, Pipes, write_all, write_frame
from harness.sandbox.limits import Limits, restart_cpu_limit
from harness.sandbox.supervision import close_all_but, die_with_parent

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


Work = Callable[[Line], Iterator[Frame | bytes]]
"""What a child does: each frame is computed when it is requested; bytes are sent unchanged."""


def main() -> None:
    """Read an order from standard input, and carry it out as the child."""
    length = int.from_bytes(read_exactly(0, 8), "big")
    order = msgspec.msgpack.decode(read_exactly(0, length), type=Order)
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
    work: Work, pipes: Pipes, limits: Limits, confine_process: Callable[[], None]
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
    work: Work, pipes: Pipes, limits: Limits, confine_process: Callable[[], None]
) -> None:
    _restore_signals()
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


def serve(work: Work, pipes: Pipes, limits: Limits) -> None:
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


def _restore_signals() -> None:
    """Undo what the command line does on a request to end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


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
