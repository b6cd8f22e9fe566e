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
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.sandbox.child import Line, read_exactly, report_errors
from harness.sandbox.fork import Sender
from harness.sandbox.frames import LARGEST_BODY, TICKET_SIZE, Frame, encode_frame, write_all
from harness.sandbox.limits import Limits, restart_cpu_limit
from harness.sandbox.scratch import empty_folder
from harness.sandbox.supervision import adopt_descendants, end_others, exit_with

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
    """A fork of this process that computes steps, and the pipe for its tickets."""

    def __init__(self, steps: range, step: Step, line: Line, limits: Limits) -> None:
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
            self._fork.wait(time.monotonic() + _PATIENCE)
            exit_with(self._fork.kill())  # it may still run, without its pipe
        return data


def _reset_output() -> None:
    """Reset the flags of the pipe that all forks print to, such as non-blocking and signals."""
    import fcntl  # not on Windows

    fcntl.fcntl(1, fcntl.F_SETFL, 0)


def serve_steps(steps: range, step: Step, tickets: int, answers: int, limits: Limits) -> None:
    """In a fork: answer each ticket with a step's frame, then a byte that says whether to go on."""
    for position in steps:
        ticket = read_exactly(tickets, TICKET_SIZE)
        restart_cpu_limit(limits)
        frame, last = step(position)
        write_all(answers, encode_frame(frame, ticket) + (_ENDS if last else _GOES_ON))
        if last:
            return
