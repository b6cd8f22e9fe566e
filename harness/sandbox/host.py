"""In the host: a confined process that imports what tasks need, and forks a child for each task.

The host itself runs no code under test, so every child starts within milliseconds from the same
clean process. On Linux the host is the first process of a PID namespace: a child cannot signal it,
and any process that a child leaves behind ends with it. For the other end of its socket, see
`harness.sandbox.hosts`.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

import msgspec

from harness.sandbox.child import ChildWork, import_function, run_child
from harness.sandbox.confinement import (
    confine_host,
    drop_privileges,
    enter_view,
    refuse_system_calls,
)
from harness.sandbox.fork import (
    INTERVAL,
    Fork,
    adopt_descendants,
    count_processes,
    die_with_parent,
    end_others,
    make_untraceable,
    wait_for_child,
)
from harness.sandbox.frames import (
    ANSWER,
    HEADER,
    KILL,
    HostOrder,
    Pipes,
    TaskOrder,
)
from harness.sandbox.limits import Limits, empty_folder, limit_resources
from harness.sandbox.view import installed

Prepare = Callable[[bytes], ChildWork]
"""Turns a task into the work of a child; runs in the host, and must not run code under test."""


def main() -> None:
    """Serve tasks from the socket whose file descriptor is the first argument."""
    control = socket.socket(fileno=int(sys.argv[1]))
    order = msgspec.msgpack.decode(_receive(control)[1], type=HostOrder)
    _TaskServer(control, order).serve()


class _TaskServer:
    """The process that serves tasks, one at a time."""

    def __init__(self, control: socket.socket, order: HostOrder) -> None:
        self.control, self.scratch = control, Path.cwd()
        die_with_parent()
        self.isolated = confine_host(self.scratch, order.limits, control.fileno())
        make_untraceable()
        adopt_descendants()
        self.ended, wake = os.pipe()
        for end in (self.ended, wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.prepare: Prepare = import_function(order.function)(*order.arguments)
        self.view = installed()
        gc.collect()
        gc.freeze()  # otherwise a collection in a child would copy every page

    def serve(self) -> NoReturn:
        """Serve tasks, one at a time, until the socket is closed."""
        while True:
            kind, payload, descriptors = _receive(self.control)
            if kind == KILL:  # the child has already ended
                continue
            order = msgspec.msgpack.decode(payload, type=TaskOrder)
            status = self._run(order, Pipes(*descriptors))
            self.control.sendall(ANSWER.pack(status))

    def _run(self, order: TaskOrder, pipes: Pipes) -> int:
        """Run a task in a child, and return the child's wait status."""
        try:
            work = self.prepare(order.data)
        except Exception as error:  # the child reports it
            work = partial(_fail, error)
        before = count_processes(self.isolated)
        child = Fork(partial(self._start_child, work, order, pipes))
        for descriptor in pipes:
            os.close(descriptor)
        self.control.sendall(ANSWER.pack(int(self.isolated)))
        most = before + order.limits.total_processes + order.forks
        status = wait_for_child(
            child.pid, self._is_told_to_kill, lambda: count_processes(self.isolated) > most
        )
        end_others(self.isolated)
        if not self.isolated:
            empty_folder(self.scratch)
        return status

    def _start_child(self, work: ChildWork, order: TaskOrder, pipes: Pipes) -> NoReturn:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        run_child(work, pipes, order.limits, partial(self._confine_child, order.limits))

    def _confine_child(self, limits: Limits) -> None:
        if self.isolated:
            enter_view(self.view, self.scratch, limits)
        drop_privileges()
        refuse_system_calls()
        os.chdir(self.scratch)
        limit_resources(limits)

    def _is_told_to_kill(self) -> bool:
        """Wait for a message or the end of a process; return whether the child must be killed."""
        events: list[socket.socket | int] = [self.control, self.ended]
        ready, _, _ = select.select(events, [], [], INTERVAL)
        if self.ended in ready:
            os.read(self.ended, 4096)
        return self.control in ready and _receive(self.control)[0] == KILL


def _fail(error: Exception, _send: object) -> NoReturn:
    raise error


def _receive(control: socket.socket) -> tuple[bytes, bytes, list[int]]:
    """Return the kind, payload and file descriptors of a message; exit if the socket is closed."""
    header, descriptors, _, _ = socket.recv_fds(control, HEADER.size, len(Pipes._fields))
    if len(header) < HEADER.size:
        os._exit(0)
    kind, length = HEADER.unpack(header)
    payload = bytearray()
    while len(payload) < length:
        piece = control.recv(length - len(payload))
        if not piece:
            os._exit(0)
        payload += piece
    return kind, bytes(payload), list(descriptors)
