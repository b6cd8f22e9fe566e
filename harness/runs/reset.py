"""What a run leaves behind in its process, put back as it was before the next run.

Probes of one engine share a process. What one of them changes there must not decide what another
one shows: a run is kept by what it depends on, and the probes that ran before it are no part of
that. Most changes are undone in microseconds; where one cannot be, the process has to end, and the
next probe gets a fresh one.

This is for engines that are broken, not for code that hides: who changes the inside of a function,
or of a list that a module holds, is not found out.
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
"""Modules that get their names back, beside the engine's and those of our own at work."""


_BUILTINS = vars(builtins)


class Process:
    """This process as it is when this object is made: the engine is loaded, no probe has run."""

    def __init__(self, engine: str, scratch: Path) -> None:
        """`engine` is the engine's top module; `scratch` is emptied after every run."""
        self._scratch = scratch
        self._builtins = _BUILTINS.copy()
        self._names = list(_namespaces(engine))
        self._classes = _classes((names for names, _ in self._names), engine)
        self._hold()
        self._lists = [(each, list(each)) for each in _lists()]
        self._settings = [(get, put, get()) for get, put in _settings()]
        self._handlers = {each: _handler(each) for each in signal.valid_signals()}
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
        if not all(map(is_, map(_handler, self._handlers), self._handlers.values())):
            for number, handler in self._handlers.items():
                if handler is not None and _handler(number) is not handler:
                    signal.signal(number, handler)
        for each, held in self._lists:
            each[:] = held
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

    def _hold(self) -> None:
        """Note what every name means now."""
        self._spaces = [names for names, _ in self._names] + [vars(each) for each in self._classes]
        self._held = [dict(space) for space in self._spaces]
        self._lengths = [len(held) for held in self._held]
        self._values = [value for held in self._held for value in held.values()]

    def _restore_names(self) -> None:
        """Give every name its meaning again, and hold what was imported meanwhile.

        There are thousands of names, and hardly a run changes one. Names keep their order, so all
        are looked at in one go; and no object is asked if it is equal: an engine may have made it.
        """
        for name, value in self._builtins.items():  # which all that follows needs
            if _BUILTINS.get(name, self) is not value:
                _BUILTINS[name] = value
        values = chain.from_iterable(map(methodcaller("values"), self._spaces))
        if [*map(len, self._spaces)] == self._lengths and all(map(is_, values, self._values)):
            return
        for (names, own), held in zip(self._names, self._held, strict=False):
            names.update(held)
            for name in [name for name in names if own and name not in held]:
                if not isinstance(names[name], ModuleType):
                    del names[name]
        for each, held in zip(self._classes, self._held[len(self._names) :], strict=True):
            now = vars(each)
            for name in [name for name in now if name not in held]:
                delattr(each, name)
            for name, value in held.items():
                if now.get(name, self) is not value:
                    setattr(each, name, value)
        self._hold()


def _namespaces(engine: str) -> Iterator[tuple[dict[str, Any], bool]]:
    """Modules by name, and the names in those that broken code may give another meaning.

    True beside those to which nobody but the engine adds names.
    """
    yield sys.modules, False
    ours = _at_work()
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        if name in MODULES or name in ours or top == engine:
            yield vars(module), top in (engine, "builtins")


def _at_work() -> set[str]:
    """Our own modules that have a part in a run: a forked process has many more."""
    found: set[str] = set()
    measuring = [name for name in sys.modules if name.startswith(_MEASURING)]
    pending = ["harness.runs.child", "harness.sandbox.child", *measuring]
    while pending:
        name = pending.pop()
        if name in sys.modules and name not in found:
            found.add(name)
            values = vars(sys.modules[name]).values()
            origins = {str(getattr(value, "__module__", "")) for value in values}
            pending += [origin for origin in origins if origin.startswith("harness.")]
    return found


_MEASURING = ("harness.diagnostics.", "harness.answer_key.")


def _classes(namespaces: Iterable[dict[str, Any]], engine: str) -> list[type]:
    """The classes that the engine itself defines."""
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
    yield _umask, os.umask
    yield partial(locale.setlocale, locale.LC_ALL), partial(locale.setlocale, locale.LC_ALL)
    for stream in ("stdin", "stdout", "stderr"):
        yield partial(getattr, sys, stream), partial(setattr, sys, stream)


_handler = inspect.unwrap(signal.getsignal)
"""What a signal does; without making an object of it that is easier to read."""


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
