"""Trying expressions on a loaded engine, each attempt in a fork, within a limit on time.

An attempt that fails may leave a half-filled tape or a changed counter behind, which would spoil
the next attempt in the same process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache
from types import ModuleType
from typing import Any, TypeVar

import msgspec
import numpy as np

from harness.core.run import FailureOrigin, NumericArray, Raiser, message_of
from harness.core.vocabulary import Lack
from harness.engines.calling import origin_of
from harness.engines.library import function_of, names_for
from harness.engines.survey import ATTEMPT_MARKER, MOST_FORKS
from harness.sandbox.fork import can_fork, compute_in_fork

Result = TypeVar("Result")

CPU_SECONDS = 5.0
"""Processor time for all attempts to find the expressions of an engine."""

_EACH = 2.0
"""Processor time for one of them."""

_LISTED = 40


class Attempts:
    """What was tried on an engine, and how it failed."""

    def __init__(self, module: ModuleType, functions: Iterable[str]) -> None:
        """Start to measure the processor time."""
        self.failed: list[str] = []
        self.cause: FailureOrigin | None = None
        """Where an attempt used a name that NumPy does not have."""
        names = names_for(module, functions)
        self._function = cache(lambda text, keys: function_of(text, keys, names, "<an attempt>"))
        self._start, self._forks = _cpu_seconds(), 0

    @property
    def may_go_on(self) -> bool:
        """Whether there is processor time left, and another fork."""
        return _cpu_seconds() - self._start < CPU_SECONDS and self._forks < MOST_FORKS

    def evaluate(self, expression: str, **arguments: Any) -> Any:
        """The value of an expression. Raises what it raises."""
        os.write(2, f"\n{ATTEMPT_MARKER} {expression}\n".encode())
        try:
            return self._function(expression, tuple(arguments))(**arguments)
        finally:
            os.write(2, f"\n{ATTEMPT_MARKER}\n".encode())

    def value(self, expression: str, **arguments: Any) -> Any:
        """The value of an expression, or None if it fails or an argument is None."""
        if any(argument is None for argument in arguments.values()):
            return None
        try:
            return self.evaluate(expression, **arguments)
        except BaseException as error:
            self.note(expression, error)
            return None

    def runs(self, expression: str, **arguments: Any) -> bool:
        """Whether an expression can be evaluated without an error."""
        try:
            self.evaluate(expression, **arguments)
        except BaseException as error:
            self.note(expression, error)
            return False
        return True

    def note(self, expression: str, error: BaseException) -> Raiser | None:
        """Remember why an expression cannot be used; return who raised, if it was the engine."""
        origin = origin_of(error)
        self.cause = origin if origin and origin.lack is Lack.NUMPY_NAME else self.cause
        self._list(f"{expression}: {type(error).__name__}: {message_of(error)}")
        return origin.raiser if origin and origin.raiser in ("engine", "statement") else None

    def apart(
        self, what: str, work: Callable[[], Result], kind: Any, *, limited: bool = True
    ) -> Result | None:
        """Return the result of `work` in a fork, which leaves this process unchanged.

        `kind` is its type, and `what` names it in the list of failures. None if it raises an
        exception, ends the fork, or needs too much processor time.
        """
        if not can_fork():
            return self._finished(what, work)
        self._forks += 1
        data = compute_in_fork(
            lambda: msgspec.msgpack.encode((self._finished(what, work), self.failed, self.cause)),
            _EACH if limited else None,
        )
        if data is None:
            self._list(f"{what}: it did not end, or it ended the process")
            return None
        try:
            decoded: Any = msgspec.msgpack.decode(
                data, type=tuple[kind | None, list[str], FailureOrigin | None]
            )
        except msgspec.MsgspecError:
            return None
        result: Result | None = decoded[0]
        self.failed, self.cause = decoded[1:]
        return result

    def _finished(self, what: str, work: Callable[[], Result]) -> Result | None:
        try:
            return work()
        except Exception as error:
            self.note(what, error)
            return None

    def _list(self, attempt: str) -> None:
        if attempt[:200] not in self.failed and len(self.failed) < _LISTED:
            self.failed.append(attempt[:200])


def _cpu_seconds() -> float:
    """Processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


# ----- Inputs, and the comparison of results -----

Shape = tuple[int, ...]


def sample(shape: Shape, seed: int = 0) -> NumericArray:
    """Return reproducible random numbers."""
    return np.asarray(np.random.default_rng((20, seed)).standard_normal(shape))


def same(actual: Any, expected: Any) -> bool:
    """Whether two arrays have the same shape and are equal within the precision of float32."""
    try:
        array = np.asarray(actual, float)
    except Exception:  # a foreign object may fail in any way
        return False
    return array.shape == np.shape(expected) and bool(np.allclose(array, expected, 1e-4, 1e-5))
