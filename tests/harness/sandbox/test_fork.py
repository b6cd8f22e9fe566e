"""Computing in a fork of this process."""

import math
import os
import signal
import time

import pytest

from harness.sandbox.fork import Sender, can_fork, compute_in_fork
from harness.sandbox.frames import LARGEST_BODY

pytestmark = pytest.mark.skipif(not can_fork(), reason="this process cannot be forked")


def test_the_result_is_returned_and_nothing_else_changes() -> None:
    state: list[int] = []

    def work() -> bytes:
        state.append(1)
        return b"x" * 100_000  # more than a pipe holds

    assert compute_in_fork(work) == b"x" * 100_000
    assert state == []


def test_an_empty_result_is_one() -> None:
    assert compute_in_fork(bytes) == b""


def test_an_exception_or_an_exit_has_no_result() -> None:
    assert compute_in_fork(lambda: bytes(1 // 0)) is None
    assert compute_in_fork(lambda: os._exit(0)) is None


def test_too_much_processor_time_ends_it() -> None:
    def work() -> bytes:
        while True:
            pass

    assert compute_in_fork(work, cpu_seconds=0.05) is None


def test_after_its_time_the_fork_and_its_group_are_killed() -> None:
    read, write = os.pipe()

    def work() -> bytes:
        os.setpgid(0, 0)
        os.fork()
        signal.pause()
        return b""

    assert compute_in_fork(work, seconds=0.2) is None
    os.close(write)
    assert os.read(read, 1) == b""  # nobody holds the other end any more
    os.close(read)


def test_a_result_that_is_too_large_is_refused() -> None:
    assert compute_in_fork(lambda: bytes(LARGEST_BODY + 1)) is None


def test_a_process_that_it_leaves_is_not_waited_for() -> None:
    """It inherits the pipe, and keeps it open until the test ends."""
    wait, go_on = os.pipe()

    def work() -> bytes:
        if os.fork() == 0:
            os.close(go_on)
            os.read(wait, 1)
        os._exit(0)

    assert compute_in_fork(work) is None
    os.close(go_on)
    os.close(wait)


def test_a_fork_that_closes_its_pipe_may_go_on() -> None:
    fork = Sender(lambda pipe: (os.write(pipe, b"done"), os.close(pipe), signal.pause()))
    assert fork.read_exactly(10) == b"done"
    assert fork.wait(time.monotonic() + 0.1) is None
    fork.close()
    assert fork.status == signal.SIGKILL


def test_an_exception_ends_a_fork_with_the_status_1() -> None:
    fork = Sender(lambda _pipe: 1 // 0)
    assert fork.read(1) == b""
    assert os.waitstatus_to_exitcode(fork.wait(math.inf) or 0) == 1
    fork.close()


def test_a_fork_holds_none_of_the_descriptors_that_are_closed_in_it() -> None:
    ours, theirs = os.pipe()
    fork = Sender(lambda pipe: (os.write(pipe, b"!"), signal.pause()), closed=(ours, theirs))
    assert fork.read(1) == b"!"
    os.close(theirs)
    os.set_blocking(ours, False)
    assert os.read(ours, 1) == b""  # BlockingIOError if somebody holds the other end
    os.close(ours)
    fork.close()
