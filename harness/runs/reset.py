"""Reset the process after a run, so that the next run does not depend on it.

The probes of a job share a process, but the key of a cached run does not include the probes before
it. Most changes that a run makes to the process are undone in microseconds; if one cannot be, the
process has to end, and the next probe gets a new one.

This is for broken engines, not for code that hides its changes: those within a function, or within
a list that a module refers to, are not detected.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import gc
import inspect
import locale
import os
import shutil
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from functools import partial
from itertools import chain
from operator import is_, methodcaller
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

Result = TypeVar("Result")

MODULES = ("builtins", "math", "msgspec", "numpy", "numpy.linalg", "numpy.random", "os", "time")
"""Modules whose names are reset, besides those of the engine and of the harness."""


_BUILTINS = vars(builtins)


class ProcessState:
    """The state of this process after the engine is loaded and before any probe has run."""

    def __init__(self, engine: str, scratch: Path) -> None:
        """Record the state of the top-level module `engine`; `scratch` is emptied after a run."""
        self._scratch = scratch
        self._builtins = _BUILTINS.copy()
        self._names = list(_namespaces(engine))
        self._classes = _classes((names for names, _ in self._names), engine)
        self._record()
        self._lists = [(items, list(items)) for items in _lists()]
        self._settings = [(get, put, get()) for get, put in _settings()]
        self._handlers = {number: _handler(number) for number in signal.valid_signals()}
        self._environment = dict(os.environ)
        self._rounding = _Rounding()
        self._lasting = _lasting()

    def isolate(self, run: Callable[[], Result]) -> tuple[Result, bool]:
        """Return what `run` returns, and whether the process could be reset."""
        with warnings.catch_warnings():
            # Many settings are context variables, such as NumPy's error handling.
            result = copy_context().run(run)
        try:
            self._restore()
            return result, _lasting() == self._lasting
        except BaseException:  # what the run left is still active, or cannot be removed
            return result, False

    def _restore(self) -> None:
        self._restore_names()
        for get, put, value in self._settings:
            if get() != value:
                put(value)
        if hasattr(signal, "setitimer"):
            for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
                signal.setitimer(timer, 0)
        if not all(map(is_, map(_handler, self._handlers), self._handlers.values())):
            for number, handler in self._handlers.items():
                if handler is not None and _handler(number) is not handler:
                    signal.signal(number, handler)
        for items, recorded in self._lists:
            items[:] = recorded
        self._rounding.restore()
        if os.environ != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)
            if hasattr(time, "tzset"):
                time.tzset()
        os.chdir(self._scratch)
        for entry in list(os.scandir()):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)  # noqa: PTH108  the entries may have any name

    def _record(self) -> None:
        """Record the value of every name."""
        self._spaces = [names for names, _ in self._names] + [vars(cls) for cls in self._classes]
        self._recorded = [dict(space) for space in self._spaces]
        self._lengths = [len(names) for names in self._recorded]
        self._values = [value for names in self._recorded for value in names.values()]

    def _restore_names(self) -> None:
        """Reset the value of every name, and record those that were imported meanwhile.

        There are thousands of names, and hardly any run changes one. Dictionaries keep their order,
        so all values are compared at once; by identity, as `==` may be the engine's.
        """
        for name, value in self._builtins.items():  # everything below needs them
            if _BUILTINS.get(name, self) is not value:
                _BUILTINS[name] = value
        values = chain.from_iterable(map(methodcaller("values"), self._spaces))
        if [*map(len, self._spaces)] == self._lengths and all(map(is_, values, self._values)):
            return
        for (names, own), recorded in zip(self._names, self._recorded, strict=False):
            names.update(recorded)
            for name in [name for name in names if own and name not in recorded]:
                if not isinstance(names[name], ModuleType):
                    del names[name]
        for cls, recorded in zip(self._classes, self._recorded[len(self._names) :], strict=True):
            current = vars(cls)
            for name in [name for name in current if name not in recorded]:
                delattr(cls, name)
            for name, value in recorded.items():
                if current.get(name, self) is not value:
                    setattr(cls, name, value)
        self._record()


def _namespaces(engine: str) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield the table of modules, and the namespaces that broken code may change.

    True marks those to which only the engine adds names.
    """
    yield sys.modules, False
    ours = _at_work()
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        if name in MODULES or name in ours or top == engine:
            yield vars(module), top in (engine, "builtins")


def _at_work() -> set[str]:
    """Return the modules of the harness that take part in a run: a forked process has many more."""
    names: set[str] = set()
    measuring = [name for name in sys.modules if name.startswith(_MEASURING)]
    pending = ["harness.runs.child", "harness.sandbox.child", *measuring]
    while pending:
        name = pending.pop()
        if name in sys.modules and name not in names:
            names.add(name)
            values = vars(sys.modules[name]).values()
            origins = {str(getattr(value, "__module__", "")) for value in values}
            pending += [origin for origin in origins if origin.startswith("harness.")]
    return names


_MEASURING = ("harness.diagnostics.", "harness.answer_key.")


def _classes(namespaces: Iterable[dict[str, Any]], engine: str) -> list[type]:
    """Return the classes that the engine defines."""
    values = (value for names in namespaces for value in names.values())
    return list(
        dict.fromkeys(
            value
            for value in values
            if isinstance(value, type) and str(value.__module__).partition(".")[0] == engine
        )
    )


def _lists() -> Iterator[list[Any]]:
    yield from (sys.path, sys.meta_path, sys.path_hooks, gc.callbacks)


def _settings() -> Iterator[tuple[Callable[[], Any], Callable[[Any], object]]]:
    """Yield the getter and the setter of each setting; first those that could trace the rest."""
    yield sys.gettrace, sys.settrace
    yield sys.getprofile, sys.setprofile
    if hasattr(signal, "pthread_sigmask"):
        yield _signal_mask, lambda mask: signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    yield sys.getrecursionlimit, sys.setrecursionlimit
    yield sys.getswitchinterval, sys.setswitchinterval
    yield sys.get_int_max_str_digits, sys.set_int_max_str_digits
    yield gc.isenabled, lambda enabled: gc.enable() if enabled else gc.disable()
    yield gc.get_threshold, lambda threshold: gc.set_threshold(*threshold)
    yield _umask, os.umask
    yield partial(locale.setlocale, locale.LC_ALL), partial(locale.setlocale, locale.LC_ALL)
    for stream in ("stdin", "stdout", "stderr"):
        yield partial(getattr, sys, stream), partial(setattr, sys, stream)


_handler = inspect.unwrap(signal.getsignal)
"""Returns the handler of a signal, without the cost of converting it to an enum."""


def _signal_mask() -> set[Any]:
    return signal.pthread_sigmask(signal.SIG_BLOCK, ())


def _umask() -> int:
    os.umask(mask := os.umask(0))
    return mask


class _Rounding:
    """How this thread rounds floating-point numbers, if the C library can tell (fenv.h)."""

    def __init__(self) -> None:
        self._state = ctypes.create_string_buffer(256)  # more than any fenv_t
        self._library: Any = None
        with contextlib.suppress(OSError, AttributeError, TypeError):
            library = ctypes.CDLL(None)
            library.fegetenv(self._state)
            self._library = library if library.fesetenv else None

    def restore(self) -> None:
        if self._library:
            self._library.fesetenv(self._state)


def _lasting() -> object:
    """Return what cannot be reset: limits, threads, child processes and standard streams."""
    return _limits(), _threads(), _has_children(), [_target(stream) for stream in (0, 1, 2)]


def _limits() -> list[tuple[int, int]]:
    if resource is None:
        return []
    kinds = ("AS", "CORE", "DATA", "FSIZE", "NOFILE", "NPROC", "STACK")
    available = [getattr(resource, f"RLIMIT_{kind}", None) for kind in kinds]
    limits = [resource.getrlimit(kind) for kind in available if kind is not None]
    return [
        *limits,
        (0, resource.getrlimit(resource.RLIMIT_CPU)[1]),
    ]  # the soft limit is set for each run


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))  # noqa: PTH208  only their number is needed
    except OSError:
        return threading.active_count()


def _has_children() -> bool:
    if not hasattr(os, "waitid"):
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _target(descriptor: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino
