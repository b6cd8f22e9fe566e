"""Forks that compute for this process: servers for one request after another, and a pool.

They end when this process does. Apart from `fork.py`, since importing `multiprocessing` would delay
the start of every host.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import Pipe, active_children, get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from harness.sandbox.fork import Fork, die_with_parent
from harness.sandbox.limits import FORKS, remove_abandoned
from harness.sandbox.signals import Terminated, terminate

_PATIENCE = 3.0
"""Seconds for servers to end themselves and everything that they have started."""


class Server(Fork):
    """A fork that answers requests from this process, until this process ends it."""

    def __init__(self, serve: Callable[[Connection], object]) -> None:
        """Fork; `serve` is called with its end of the connection."""
        self.connection, other = Pipe()

        def listen() -> None:
            self.connection.close()
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C signals the whole terminal
            serve(other)

        super().__init__(listen)
        other.close()

    def end(self) -> int:
        """End it, after giving it a moment to end what it has started; return its wait status."""
        end_all([self])
        return self.kill()


def end_all(servers: Sequence[Server]) -> None:
    """End these servers, after giving them a moment to end what they have started."""
    for server in servers:
        server.connection.close()  # ends an idle server, however it handles SIGTERM
        if server.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # reaped meanwhile by code under test
                os.kill(server.pid, signal.SIGTERM)
    end = time.monotonic() + _PATIENCE
    for server in servers:
        server.wait(end)
        server.kill()


# ----- A pool -----

Item = TypeVar("Item")
Result = TypeVar("Result")
Shared = TypeVar("Shared")

_JOIN_PATIENCE = 5.0
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
    if processes < 2 or not FORKS:
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
                process.join(_JOIN_PATIENCE)
            remove_abandoned()  # a process that is terminated leaves its scratch folder


def map_sharing(
    function: Callable[[Item, Shared], Result],
    shared: Shared,
    items: Sequence[Item],
    processes: int,
) -> Generator[Result, None, None]:
    """Like `map_in_parallel`; the processes inherit `shared`, which need not be sent to them."""
    _SHARED.append((function, shared))
    try:
        with contextlib.closing(map_in_parallel(_call_sharing, items, processes)) as results:
            yield from results
    finally:
        _SHARED.pop()


_SHARED: list[tuple[Callable[[Any, Any], Any], object]] = []
"""The functions of the calls in progress, and what their processes inherit."""


def _call_sharing(item: object) -> Any:
    function, shared = _SHARED[-1]
    return function(item, shared)


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
