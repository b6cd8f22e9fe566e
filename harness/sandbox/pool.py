"""Forked processes that work side by side, and end at once, all of them, when this one has to."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import active_children, get_all_start_methods, get_context
from typing import TypeVar

from harness.sandbox.confinement import die_with_parent
from harness.sandbox.signals import Terminated, terminate

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(
    work: Callable[[Item], Result], items: Sequence[Item], processes: int
) -> Generator[Result, None, None]:
    """The result for each item, in their order; in this process where there is no fork.

    Close the generator where it is not used up: that ends what is under way.
    """
    if processes < 2 or "fork" not in get_all_start_methods():
        yield from map(work, items)
        return
    pool = ProcessPoolExecutor(processes, get_context("fork"), initializer=_begin)
    try:
        yield from pool.map(partial(_work, work), items)
    except BaseException:
        for process in active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Ctrl-C reaches every process of a terminal; the one that has started the others ends them."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _work(work: Callable[[Item], Result], item: Item) -> Result:
    """A request to end interrupts the item, its engine's process and scratch folder included."""
    signal.signal(signal.SIGTERM, terminate)
    try:
        return work(item)
    except Terminated:
        os._exit(0)  # not to go on with another item
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
