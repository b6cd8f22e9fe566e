"""The limit on processor time, which the kernel counts in whole seconds."""

import os

import pytest

from harness.sandbox.fork import can_fork, compute_in_fork
from harness.sandbox.limits import Limits, restart_cpu_limit

pytestmark = pytest.mark.skipif(not can_fork(), reason="this process cannot be forked")


@pytest.mark.parametrize(("cpu_seconds", "second"), [(0.5, 1), (1, 2), (1.5, 2), (3, 4)])
def test_the_limit_is_rounded_up_to_a_whole_second(cpu_seconds: float, second: int) -> None:
    def work() -> bytes:
        import resource  # not on Windows

        while os.times().user + os.times().system < 0.02:  # a fork starts at 0
            pass
        restart_cpu_limit(Limits(cpu_seconds=cpu_seconds))
        return bytes([resource.getrlimit(resource.RLIMIT_CPU)[0]])

    assert compute_in_fork(work) == bytes([second])
