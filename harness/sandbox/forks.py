"""In a child: compute steps in forks of the child, so that the child itself does not change.

A fork has no access to the pipes for tickets and frames. The child forwards the ticket of each
request to the fork, and the fork's answers without decoding them: the main process validates them
like any other. Before it forwards a fork's last answer, it kills the fork and every process that
the fork has left behind, so that none of them affects the next step.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from harness.sandbox.child import Line, read_exactly
from harness.sandbox.fork import Fork
from harness.sandbox.frames import LARGEST_BODY, TICKET_SIZE, Frame, encode_frame, write_all
from harness.sandbox.limits import Limits, restart_cpu_limit
from harness.sandbox.scratch import empty_folder
from harness.sandbox.supervision import (
    adopt_descendants,
    die_with_parent,
    end_others,
    exit_with,
)

Step = Callable[[int], tuple[Frame, bool]]
"""Returns the frame of a step, and whether the process that computed it must end."""

_PATIENCE = 5.0
"""Seconds that a fork may take to end after it has closed its pipe."""

_GOES_ON, _ENDS = b".", b"!"


def compute_in_forks(
    count: int, step: Step, may_go_on: Callable[[int], bool], line: Line, limits: Limits
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
        fork = _Fork(range(position, count), step, line, limits)
        ended = False
        while not ended:
            answer, ended = fork.answer(line)
            ended = ended or position + 1 == count or not may_go_on(position)
            if ended:
                fork.close()
            yield answer
            position += 1


class _Fork:
    """A fork of this process, and this process's ends of the pipes to it."""

    def __init__(self, steps: range, step: Step, line: Line, limits: Limits) -> None:
        self._scratch = Path.cwd()
        (tickets, self._tickets), (self._answers, answers) = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            for descriptor in (*line.pipes[:2], self._tickets, self._answers):
                os.close(descriptor)
            die_with_parent()
            serve_steps(steps, step, tickets, answers, limits)
        self._fork = Fork(pid)
        os.close(tickets)
        os.close(answers)

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
        answer = self._read(4 + length, head, line)
        return answer, self._read(1, b"", line) != _GOES_ON

    def close(self) -> None:
        """Kill the fork and the processes it has left, and undo its changes to shared resources."""
        os.close(self._tickets)
        os.close(self._answers)
        self._fork.kill()
        end_others(isolated=False)
        _reset_output()
        empty_folder(self._scratch)
        os.chdir(self._scratch)  # it may have been replaced

    def _read(self, length: int, data: bytes, line: Line) -> bytes:
        """Read until there are `length` bytes; the fork's children may keep the pipe open."""
        pieces, missing = [data], length - len(data)
        while missing:
            ended = self._fork.status is not None
            if select.select([self._answers], [], [], 0 if ended else 0.05)[0]:
                piece = os.read(self._answers, missing)
                if not piece:
                    self._end(b"".join(pieces), line)
                pieces.append(piece)
                missing -= len(piece)
            elif ended:
                self._end(b"".join(pieces), line)
            else:
                self._fork.poll()
        return b"".join(pieces)

    def _end(self, sent: bytes, line: Line) -> NoReturn:
        write_all(line.pipes.frames, sent)
        end = time.monotonic() + _PATIENCE
        while self._fork.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        exit_with(self._fork.kill())  # it may still run, without its pipe


def _reset_output() -> None:
    """Reset the flags of the pipe that all forks print to, such as non-blocking and signals."""
    import fcntl  # not on Windows

    fcntl.fcntl(1, fcntl.F_SETFL, 0)


def serve_steps(steps: range, step: Step, tickets: int, answers: int, limits: Limits) -> NoReturn:
    """In a fork: answer each ticket with a step's frame, then a byte that says whether to go on."""
    for position in steps:
        ticket = read_exactly(tickets, TICKET_SIZE)
        restart_cpu_limit(limits)
        frame, last = step(position)
        write_all(answers, encode_frame(frame, ticket) + (_ENDS if last else _GOES_ON))
        if last:
            break
    os._exit(0)
