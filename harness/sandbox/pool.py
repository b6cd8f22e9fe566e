"""Forked processes that work in parallel, and that end when this one is ended."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import active_children, get_all_start_methods, get_context
from typing import TypeVar

from harness.sandbox.scratch import remove_abandoned
from harness.sandbox.signals import Terminated, terminate
from harness.sandbox.supervision import die_with_parent

Item = TypeVar("Item")
Result = TypeVar("Result")

_PATIENCE = 5.0
"""Seconds to wait for a process that has nothing left to do."""


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_in_parallel(
    function: Callable[[Item], Result], items: Sequence[Item], processes: int
) -> Generator[Result, None, None]:
    """Yield the result for each item, in order; computed in this process if it cannot fork.

    Close the generator if it is not exhausted: that ends the work in progress.
    """
    if processes < 2 or "fork" not in get_all_start_methods():
        yield from map(function, items)
        return
    pool = ProcessPoolExecutor(processes, get_context("fork"), initializer=_start)
    try:
        yield from pool.map(partial(_call, function), items)
    except BaseException:
        for process in active_children():
            process.terminate()
        raise
    finally:
        try:
            pool.shutdown(cancel_futures=True)
        finally:
            pool.shutdown()  # a signal may have ended the wait, and Python would complain at exit
            for process in active_children():  # after that signal, shutdown has not joined them
                process.join(_PATIENCE)
            remove_abandoned()  # a process that is terminated leaves its scratch folder


def _start() -> None:
    """Leave Ctrl-C, which reaches every process of a terminal, to the process that forked us."""
    gc.freeze()  # otherwise a collection would copy every page that is shared with that process
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _call(function: Callable[[Item], Result], item: Item) -> Result:
    """Call the function so that SIGTERM ends it cleanly, with its child and scratch folder."""
    signal.signal(signal.SIGTERM, terminate)
    try:
        return function(item)
    except Terminated:
        os._exit(0)  # rather than start on another item
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
