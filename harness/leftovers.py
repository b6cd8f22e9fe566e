"""What a run leaves behind in its process, put back as it was before the next run.

Probes of one engine share a process. What one of them changes there must not decide what another
one shows: a run is kept by what it depends on, and the probes that ran before it are no part of
that. Most changes are undone in microseconds; where one cannot be, the process has to end, and the
next probe gets a fresh one.

This is for engines that are broken, not for code that hides: who changes the inside of a function,
or of a list that a module holds, is not found out.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import locale
import os
import random
import shutil
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from numpy.random import mtrand

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

Result = TypeVar("Result")

MODULES = ("builtins", "math", "msgspec", "numpy", "numpy.linalg", "numpy.random", "os", "time")
"""Modules that get their names back, beside the engine's and our own."""


class Process:
    """This process as it is when this object is made: the engine is loaded, no probe has run."""

    def __init__(self, engine: str, scratch: Path) -> None:
        """`engine` is the engine's top module; `scratch` is emptied after every run."""
        self._scratch = scratch
        self._names = [(names, list(names.items())) for names in _namespaces(engine)]
        self._classes = [(each, dict(vars(each))) for each in _classes(self._names, engine)]
        self._builtins = set(vars(sys.modules["builtins"]))
        self._lists = [(each, list(each)) for each in _lists()]
        self._settings = [(get, put, get()) for get, put in _settings()]
        self._signals = [(each, signal.getsignal(each)) for each in signal.valid_signals()]
        self._generator = mtrand.get_bit_generator()
        self._state = self._generator.state
        self._environment = dict(os.environ)
        self._rounding = _Rounding()
        self._lasting = _lasting()

    def isolate(self, run: Callable[[], Result]) -> tuple[Result, bool]:
        """What `run` returns, and whether the process is again as it was before."""
        with warnings.catch_warnings():
            # Many settings are context variables: NumPy's of errors, an engine's of recording.
            result = copy_context().run(run)
        try:
            self._restore()
            return result, _lasting() == self._lasting
        except BaseException:  # what it left behind still acts, or cannot be removed
            return result, False

    def _restore(self) -> None:
        self._restore_names()
        for get, put, value in self._settings:
            if get() != value:
                put(value)
        if hasattr(signal, "setitimer"):
            for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
                signal.setitimer(timer, 0)
        for number, handler in self._signals:
            if handler is not None and signal.getsignal(number) != handler:
                signal.signal(number, handler)
        for each, held in self._lists:
            each[:] = held
        mtrand.set_bit_generator(self._generator)
        self._generator.state = self._state
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
                os.unlink(entry.path)  # noqa: PTH108  what is there may have any name

    def _restore_names(self) -> None:
        for names, held in self._names:
            for name, value in held:
                if names.get(name, self) is not value:
                    names[name] = value
        for each, before in self._classes:
            now = vars(each)
            for name in [name for name in now if name not in before]:
                delattr(each, name)
            for name, value in before.items():
                if now.get(name, self) is not value:
                    setattr(each, name, value)
        builtins = vars(sys.modules["builtins"])
        for name in builtins.keys() - self._builtins:
            del builtins[name]


def _namespaces(engine: str) -> Iterator[dict[str, Any]]:
    """Modules by name, and the names in those that broken code may give another meaning."""
    yield sys.modules
    for name, module in list(sys.modules.items()):
        if name in MODULES or name.partition(".")[0] in (engine, "harness"):
            yield vars(module)


def _classes(
    namespaces: Iterable[tuple[dict[str, Any], list[tuple[str, Any]]]], engine: str
) -> set[type]:
    """The classes that the engine itself defines."""
    return {
        value
        for _, held in namespaces
        for _, value in held
        if isinstance(value, type) and str(value.__module__).partition(".")[0] == engine
    }


def _lists() -> Iterator[list[Any]]:
    yield from (sys.path, sys.meta_path, sys.path_hooks, gc.callbacks)


def _settings() -> Iterator[tuple[Callable[[], Any], Callable[[Any], object]]]:
    """How to ask for a setting, and how to change it; what watches our own code comes first."""
    yield sys.gettrace, sys.settrace
    yield sys.getprofile, sys.setprofile
    if hasattr(signal, "pthread_sigmask"):
        yield _signal_mask, lambda mask: signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    yield sys.getrecursionlimit, sys.setrecursionlimit
    yield sys.getswitchinterval, sys.setswitchinterval
    yield sys.get_int_max_str_digits, sys.set_int_max_str_digits
    yield gc.isenabled, lambda enabled: gc.enable() if enabled else gc.disable()
    yield gc.get_threshold, lambda threshold: gc.set_threshold(*threshold)
    yield random.getstate, random.setstate
    yield _umask, os.umask
    yield partial(locale.setlocale, locale.LC_ALL), partial(locale.setlocale, locale.LC_ALL)
    for stream in ("stdin", "stdout", "stderr"):
        yield partial(getattr, sys, stream), partial(setattr, sys, stream)


def _signal_mask() -> set[Any]:
    return signal.pthread_sigmask(signal.SIG_BLOCK, ())


def _umask() -> int:
    os.umask(mask := os.umask(0))
    return mask


class _Rounding:
    """How this thread rounds floats, where the C library can say it (fenv.h)."""

    def __init__(self) -> None:
        self._held = ctypes.create_string_buffer(256)  # more than any fenv_t
        self._library: Any = None
        with contextlib.suppress(OSError, AttributeError, TypeError):
            library = ctypes.CDLL(None)
            library.fegetenv(self._held)
            self._library = library if library.fesetenv else None

    def restore(self) -> None:
        if self._library:
            self._library.fesetenv(self._held)


def _lasting() -> object:
    """What no run can undo, and none should change."""
    return _limits(), _threads(), _has_children(), [_target(stream) for stream in (0, 1, 2)]


def _limits() -> list[tuple[int, int]]:
    if resource is None:
        return []
    kinds = ("AS", "CORE", "DATA", "FSIZE", "NOFILE", "NPROC", "STACK")
    known = [getattr(resource, f"RLIMIT_{kind}", None) for kind in kinds]
    limits = [resource.getrlimit(kind) for kind in known if kind is not None]
    return [*limits, (0, resource.getrlimit(resource.RLIMIT_CPU)[1])]  # the soft one is each run's


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))  # noqa: PTH208  their number is all we want
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
        said = os.fstat(descriptor)
    except OSError:
        return None
    return said.st_dev, said.st_ino
