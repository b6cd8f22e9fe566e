"""Hosts, as seen by the main process: start one, have it fork children, and end it.

A host serves one child at a time. It is kept for the next task with the same opening, and ends with
the main process (the one that started it). See `harness.sandbox.host` for what happens in the host.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from multiprocessing import util

import msgspec

from harness.core.errors import EnvironmentProblem
from harness.core.message import message, shortened, visible
from harness.sandbox.frames import (
    ANSWER,
    HEADER,
    KILL,
    ORDER,
    HostOrder,
    Pipes,
    TaskOrder,
)
from harness.sandbox.limits import (
    Limits,
    child_environment,
    hiding_own_folders,
    make_scratch_folder,
    remove_folder,
    remove_own,
)
from harness.sandbox.signals import ignore_requests

PATIENCE = 0.1
"""Seconds to wait for a process to end by itself, and again after it was asked to end."""

LONG_PATIENCE = 5.0
"""Seconds to wait for a process that is about to end."""

START_UP = 120.0
"""Seconds that a host may take to start and import libraries on a busy machine."""

MOST_TASKS = 2000
"""A host is replaced after this many tasks, before it runs out of process IDs."""


@dataclass(frozen=True)
class Opening:
    """What a host imports when it starts."""

    function: str
    """`module:function`, which takes the arguments and returns a `harness.sandbox.host.Prepare`."""
    arguments: tuple[str, ...] = ()


class HostLost(Exception):
    """A host has ended, or does not answer; the message is the last line that it printed."""


class Host:
    """A process that forks a child for each task, and the socket connected to it."""

    def __init__(self, opening: Opening, limits: Limits) -> None:
        self.owner, self.tasks = os.getpid(), 0
        self.key = _key(opening, limits)
        self.scratch = make_scratch_folder()
        self.control, theirs = socket.socketpair()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-BP", "-c", _MAIN, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd=self.scratch,
                env=child_environment(self.scratch),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except BaseException:
            self.control.close()
            remove_folder(self.scratch)
            raise
        finally:
            theirs.close()
        _running.add(self)
        order = HostOrder(opening.function, opening.arguments, limits)
        with contextlib.suppress(OSError):  # it has already ended; the first task will raise
            self._send(order)

    def start_child(self, order: TaskOrder, pipes: Pipes) -> None:
        """Have the host fork a child with these ends of its pipes. Raises HostLost."""
        self.tasks += 1
        try:
            self._send(order, pipes)
            if not self.receive(START_UP) and order.limits.namespaces:
                not_granted.add("namespaces")
        except OSError as error:  # also if it does not answer in time
            raise self._lost() from error

    def receive(self, seconds: float) -> int:
        """Return the status in the next answer. Raises HostLost or TimeoutError."""
        self.control.settimeout(seconds)
        answer = b""
        while len(answer) < ANSWER.size:
            try:
                piece = self.control.recv(ANSWER.size - len(answer))
            except TimeoutError:
                raise
            except OSError:
                piece = b""
            if not piece:
                raise self._lost()
            answer += piece
        return int(ANSWER.unpack(answer)[0])

    def kill_child(self) -> None:
        """Have the child killed; its status still arrives."""
        with contextlib.suppress(OSError):
            self.control.settimeout(LONG_PATIENCE)
            self.control.sendall(HEADER.pack(KILL, 0))

    def close(self) -> None:
        """End the host and everything that it has started."""
        _running.discard(self)
        self.control.close()
        if self.owner != os.getpid():  # a fork must leave its parent's hosts alone
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE)  # it ends when its socket is closed
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()
        remove_folder(self.scratch)

    def _send(self, order: HostOrder | TaskOrder, pipes: tuple[int, ...] = ()) -> None:
        data = msgspec.msgpack.encode(order)
        self.control.settimeout(START_UP)
        socket.send_fds(self.control, [HEADER.pack(ORDER, len(data))], pipes)
        self.control.sendall(data)

    def _lost(self) -> HostLost:
        """Close the host, and return an error with the last line that it printed."""
        self.process.kill()
        printed = self.process.stderr.read() if self.process.stderr else b""
        self.close()
        lines = visible(printed.decode(errors="backslashreplace")).split("\n")
        return HostLost(shortened(next((line for line in reversed(lines) if line), ""), 300))


_MAIN = "from harness.sandbox.host import main; main()"

not_granted: set[str] = set()
"""What the system refused to grant to the children of this process."""

_running: set[Host] = set()
"""All hosts that have not been closed."""

_idle: dict[object, list[Host]] = defaultdict(list)
"""The hosts that wait for a task, by what they have imported and how they are confined."""


def _key(opening: Opening, limits: Limits) -> object:
    return os.getpid(), opening, limits.namespaces, limits.file_size, tuple(sys.path)


def start_child(opening: Opening, order: TaskOrder, pipes: Pipes) -> Host:
    """Have a host fork a child, and return the host.

    A host that ended while it was idle is replaced. Raises EnvironmentProblem if none starts.
    """
    order = msgspec.structs.replace(order, limits=hiding_own_folders(order.limits))
    waiting = _idle[_key(opening, order.limits)]
    while waiting:
        host = waiting.pop()
        with contextlib.suppress(HostLost):
            host.start_child(order, pipes)
            return host
    try:
        _close_hosts_at_exit(os.getpid())
        host = Host(opening, order.limits)
        host.start_child(order, pipes)
    except (OSError, HostLost) as error:
        raise EnvironmentProblem(
            message("the process that runs engines could not be started: {error}", error=error),
            "check the limits on processes, memory and open files (`ulimit -a`)",
        ) from error
    return host


@cache
def _close_hosts_at_exit(_process: int) -> None:
    """Register it once per process; unlike `atexit` handlers, it also runs in pool processes."""
    util.Finalize(None, _end_all, exitpriority=100)


def _end_all() -> None:
    """End the hosts, also one that another thread has only begun to start."""
    ignore_requests()  # another signal would leave scratch folders
    close_hosts()
    remove_own()


def close_hosts() -> None:
    """End all hosts of this process."""
    _idle.clear()
    for host in [host for host in _running if host.owner == os.getpid()]:
        host.close()


class HostedProcess:
    """A child of a host; once it has ended, the host is idle again."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._status: int | None = None
        self.lost = False

    def end(self, patience: float = PATIENCE) -> int:
        """See `ChildProcess.end`."""
        if self._status is None:
            try:
                status = self._wait(patience)
                self._status = os.waitstatus_to_exitcode(status)
                self._release()
            except (HostLost, TimeoutError):
                self._host.close()
                self._status, self.lost = -signal.SIGKILL, True
            except BaseException:  # such as Ctrl-C: the child must not continue
                self._host.close()
                raise
        return self._status

    def _wait(self, patience: float) -> int:
        with contextlib.suppress(TimeoutError):
            return self._host.receive(patience)
        self._host.kill_child()
        return self._host.receive(LONG_PATIENCE)

    def _release(self) -> None:
        if self._host.tasks < MOST_TASKS:
            _idle[self._host.key].append(self._host)
        else:
            self._host.close()
