"""A pool of forked processes leaves no process and no thread, however it ends."""

import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children

import pytest

from harness.sandbox.pool import map_in_parallel
from harness.sandbox.signals import Terminated


def test_a_signal_while_the_pool_ends_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python would write to the closed pipe of such a thread at its exit, and print a traceback."""
    whole, threads = ProcessPoolExecutor.shutdown, threading.active_count()
    calls: list[bool] = []

    def interrupted(pool: ProcessPoolExecutor, **options: bool) -> None:
        calls.append(True)
        if len(calls) == 1:
            raise Terminated(130)
        whole(pool, **options)

    monkeypatch.setattr(ProcessPoolExecutor, "shutdown", interrupted)
    with pytest.raises(Terminated):
        list(map_in_parallel(abs, [-1, -2, -3], 2))
    assert threading.active_count() == threads
    assert not active_children()
