"""Functions that are computed in forks of this process, so that it does not change."""

from __future__ import annotations

import os
import pickle
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Item = TypeVar("Item")
Value = TypeVar("Value")


def map_in_forks(
    function: Callable[[Item], Value], items: Sequence[Item], jobs: int
) -> list[Value]:
    """Return the value for each item, in order, each computed in a fork of its own.

    Raises RuntimeError if a fork ends without a value.
    """
    started = [
        _start(lambda own: [_finish(*_start(function, item)) for item in own], items[job::jobs])
        for job in range(jobs)
    ]
    parts = [_finish(*part) for part in started]
    return [parts[i % jobs][i // jobs] for i in range(len(items))]


def _start(function: Callable[[Any], Any], argument: object) -> tuple[int, int]:
    """Fork; return the process and the pipe that its value will come through."""
    begin, end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # BLAS has threads, which are idle
        pid = os.fork()
    if pid:
        os.close(end)
        return pid, begin
    try:
        os.close(begin)
        with os.fdopen(end, "wb") as pipe:
            pickle.dump(function(argument), pipe)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _finish(pid: int, begin: int) -> Any:
    with os.fdopen(begin, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    if not data:
        raise RuntimeError("a process ended without a result")
    return pickle.loads(data)
