"""In the child process: drop what was inherited, become confined, and answer tickets with frames.

A forked child calls `run_child`; a fresh interpreter calls `main`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import msgspec

from harness.core.run import message_of
from harness.sandbox.confinement import confine
from harness.sandbox.frames import TICKET_SIZE, Frame, write_frame
from harness.sandbox.limits import Limits, restart_cpu_limit
from harness.sandbox.supervision import close_all_but, die_with_parent

Send = Callable[[Frame], None]
"""Sends a frame with the ticket of the last request, in addition to the frame that answers it."""

Work = Callable[[Send], Iterator[Frame]]
"""What a child does: each frame is computed when it is requested."""

ALLOWED_VARIABLES = {
    *("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "SYSTEMROOT"),
    *(f"{library}_NUM_THREADS" for library in ("OMP", "OPENBLAS", "MKL")),
}
"""The environment variables that a child inherits."""


class Pipes(NamedTuple):
    """The child's ends of its pipes, as file descriptors."""

    tickets: int
    frames: int
    output: int
    """Receives what the child prints."""


class Order(msgspec.Struct, frozen=True):
    """What a fresh interpreter is to do."""

    function: str
    """`module:function`, which takes the data and a `Send` and returns an iterator of frames."""
    data: bytes
    limits: Limits
    confined: bool


def encode_order(order: Order) -> bytes:
    """Return an order as `main` reads it: eight bytes of length (big-endian), then msgpack."""
    data = msgspec.msgpack.encode(order)
    return len(data).to_bytes(8, "big") + data


def main() -> None:
    """Read an order from standard input, and carry it out as the child."""
    length = int.from_bytes(_read_exactly(0, 8), "big")
    order = msgspec.msgpack.decode(_read_exactly(0, length), type=Order)
    work = partial(import_function(order.function), order.data)
    os.write(1, bytes(4))  # an empty frame: the interpreter has started
    pipes = Pipes(os.dup(0), os.dup(1), os.dup(2))
    run_child(work, pipes, Path.cwd(), order.limits, confined=order.confined)


def import_function(name: str) -> Callable[..., Any]:
    """Import `module:function`, such as `harness.diagnostics.gradcheck:measure`."""
    module, _, attribute = name.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return function


def run_child(
    work: Work, pipes: Pipes, scratch: Path, limits: Limits, *, confined: bool
) -> NoReturn:
    """Answer tickets with the frames of `work`, in `scratch`, and end the process.

    Standard input is empty, and standard output and error go to `pipes.output`. Unless `confined`,
    the work is trusted: it is not limited, except in processor time.
    """
    status = 1
    try:
        _restore_signals()
        die_with_parent()
        close_all_but(0, 1, 2, *pipes)
        _redirect_streams(pipes.output)
        _replace_environment(scratch)
        if confined:
            confine(scratch, limits)
        else:
            os.chdir(scratch)
        serve(work, pipes, limits)
        status = 0
    except BaseException as error:  # such as from work that patches this module
        with contextlib.suppress(BaseException):
            os.write(2, f"{type(error).__name__}: {message_of(error)}".encode())
    os._exit(status)


def serve(work: Work, pipes: Pipes, limits: Limits) -> None:
    """Answer each ticket with the next frame of `work`, while there is one."""
    pipe, ticket = pipes.frames, b""
    frames = work(lambda frame: write_frame(pipe, frame, ticket))
    while True:
        ticket = _read_exactly(pipes.tickets, TICKET_SIZE)
        restart_cpu_limit(limits)
        answer = next(frames, None)
        if answer is None:
            return
        write_frame(pipe, answer, ticket)


def _read_exactly(descriptor: int, count: int) -> bytes:
    """Read that many bytes; end the process if the host has closed the pipe."""
    data = b""
    while len(data) < count:
        piece = os.read(descriptor, count - len(data))
        if not piece:
            os._exit(0)
        data += piece
    return data


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


def _replace_environment(scratch: Path) -> None:
    """Hide the user's environment, and point to the scratch folder instead."""
    inherited = {name: os.environ[name] for name in ALLOWED_VARIABLES if name in os.environ}
    os.environ.clear()
    os.environ |= inherited | dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(scratch))
    tempfile.tempdir = None  # a forked child inherits its parent's folder
