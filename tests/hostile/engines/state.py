"""Attacks on what the next run inherits: Python, NumPy, the harness, and settings."""

from contextvars import ContextVar

POWER = 2
recording = ContextVar("recording", default=True)


@ends("any")
def patch_a_record(tensor):
    """Replaces methods of the records that hold what was observed."""
    import harness.core.run
    import harness.pages.probe
    import json
    import struct

    for record in (harness.core.run.Run, harness.core.run.Array, harness.pages.probe.Probe):
        record.__init__ = record.__eq__ = record.__hash__ = lambda *_, **__: False
    struct.pack = json.dumps = struct.unpack = None
    harness.core.run.Run.__reduce__ = None


@ends("any")
def patch_builtins(tensor):
    """Gives Python's builtins another meaning."""
    import builtins

    for name in ("len", "isinstance", "print", "sorted", "dict", "open", "map"):
        setattr(builtins, name, lambda *_, **__: 7)
    builtins.shape = "a new one"


@ends("any")
def patch_itself(tensor):
    """Changes its own classes and its own names for good."""
    global POWER, CALLS
    POWER = 3
    CALLS = 1
    Tensor = type(tensor)
    Tensor.square = lambda self: self
    Tensor.__init__ = None
    globals()["Tensor"] = None


@ends("any")
def patch_numpy(tensor):
    """Gives functions of NumPy another meaning."""
    import numpy as np
    import numpy.testing

    for module, name in (
        (np, "asarray"),
        (np, "array"),
        (np, "shares_memory"),
        (np, "random"),
        (np.linalg, "norm"),
        (np.random, "rand"),
        (np.testing, "assert_allclose"),
    ):
        setattr(module, name, lambda *_, **__: 7)
    del np.sum


@ends("any")
def patch_the_code(tensor):
    """Replaces the code of functions that the child has already imported."""
    import harness.core.run
    import harness.runs.job
    import harness.runs.observer
    import harness.runs.protocol
    import harness.runs.trial
    import harness.sandbox.child

    nothing = (lambda *_, **__: None).__code__
    for function in (
        harness.core.run.pack,
        harness.runs.observer._shared,
        harness.runs.trial.draw,
        harness.runs.protocol.encode_or_fail,
        harness.runs.job._Session.step,
        harness.sandbox.child.run_child,
        harness.sandbox.child.serve_steps,
    ):
        function.__code__ = nothing


@ends("any")
def patch_the_import(tensor):
    """Replaces the import machinery."""
    import builtins
    import sys

    class Finder:
        def find_spec(self, *_):
            raise RuntimeError("not found")

    sys.meta_path[:] = [Finder()]
    sys.path_hooks.clear()
    sys.path_importer_cache.clear()
    builtins.__import__ = builtins.__build_class__ = None


@ends("any")
def patch_the_observer(tensor):
    """Replaces the code that observes it."""
    import harness.runs.job
    import harness.runs.observer

    harness.runs.observer.pack = harness.runs.job.observe = lambda *_, **__: None
    harness.runs.observer._shared = lambda *_: ["all of it"]
    harness.runs.job.Trial = harness.runs.job._run = None


@ends("any")
def patch_the_sender(tensor):
    """Replaces the code that sends what was seen of it."""
    import harness.runs.job
    import harness.runs.protocol
    import harness.sandbox.child
    import harness.sandbox.frames
    import msgspec

    harness.sandbox.child.write_frame = harness.sandbox.frames.write_all = lambda *_: None
    harness.sandbox.frames.encode_frame = lambda *_: b"\0\0\0\x01?"
    harness.runs.job.encode_or_fail = harness.runs.protocol.encode_reply = lambda *_: None
    harness.runs.protocol._BYTES = {}
    msgspec.msgpack.encode = lambda *_, **__: b""


@ends("any")
def patch_the_system(tensor):
    """Replaces functions of the operating system."""
    import os
    import time

    os.write = lambda *_: 0
    os.read = lambda *_: b""
    os.umask = os.chdir = os.scandir = lambda *_: None
    time.perf_counter = lambda: float("nan")


@ends("any")
def patch_through_the_frames(tensor):
    """Changes the variables of its callers, through their frames."""
    import ctypes
    import sys

    frame = sys._getframe()
    while frame := frame.f_back:
        for name in list(frame.f_locals):
            frame.f_locals[name] = None
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), 1)
        frame.f_globals.clear()


@ends(None)
def patch_what_compares(tensor):
    """Changes a function, and the builtin that could tell."""
    import builtins

    import numpy as np

    np.linalg.norm = lambda *_: 7.0
    builtins.all = lambda _: True


@ends("any")
def forget_modules(tensor):
    """Forgets modules that were imported, and puts others in their place."""
    import sys

    sys.modules["os"] = sys.modules["harness.core.run"] = None
    del sys.modules["numpy"], sys.modules["random"]
    sys.path.clear()
    sys.meta_path.clear()


@ends("any", cpu_seconds=5)
def write_into_an_integer(tensor):
    """Changes the value of a small integer, which Python shares between all uses."""
    import ctypes

    ctypes.memset(id(7) + 24, 8, 1)
    ctypes.memset(id(0.0) + 16, 8, 1)
    ctypes.memset(id("weighted") + 56, 65, 1)


@ends(None)
def collector_raises(tensor):
    """Callbacks of the garbage collector, and finalizers, that raise."""

    class Stubborn:
        def __init__(self):
            self.me = self

        def __del__(self):
            raise RuntimeError("not yet")

    def raises(*_):
        raise RuntimeError("collected")

    import gc

    Stubborn()
    gc.callbacks.append(raises)
    gc.collect()
    gc.set_threshold(1)
    gc.disable()


@ends("any")
def trace_everything(tensor):
    """Has every call traced and profiled, by functions that raise."""

    def raises(*_):
        raise RuntimeError("traced")

    import sys
    import threading

    threading.settrace(raises)
    sys.setprofile(raises)
    sys.settrace(raises)


@ends("any")
def audit_everything(tensor):
    """Adds an audit hook, which cannot be removed, that refuses whatever Python does."""
    import sys

    def refuse(event, _):
        raise RuntimeError(event)

    sys.addaudithook(refuse)


@ends(None)
def settings_of_a_context(tensor):
    """Changes a context variable, as engines do that stop recording."""
    recording.set(False)


@ends(None)
def settings_of_numpy(tensor):
    """Changes how NumPy treats errors, and what it draws."""
    import numpy as np

    np.seterr(all="raise")
    np.random.seed(7)
    np.random.set_bit_generator(np.random.MT19937(7))
    np.set_printoptions(precision=1)


@ends(None)
def settings_of_python(tensor):
    """Changes what Python lets one change."""
    import gc
    import random
    import sys
    import warnings

    random.seed(7)
    warnings.simplefilter("error")
    warnings.filters.append(("error", None, Warning, None, 1))
    gc.disable()
    sys.setswitchinterval(1.0)
    sys.set_int_max_str_digits(0)
    sys.setrecursionlimit(200)


@ends(None)
def settings_of_rounding(tensor):
    """Rounds floats towards minus infinity, and flushes small ones to zero."""
    import ctypes

    libc = ctypes.CDLL(None)
    libc.fesetround(0x400)


@ends(None)
def settings_of_signals(tensor):
    """Changes what signals do, and blocks them."""
    import signal

    def raises(*_):
        raise ValueError("a signal")

    for number in (signal.SIGTERM, signal.SIGXCPU, signal.SIGUSR1, signal.SIGPIPE, signal.SIGCHLD):
        signal.signal(number, raises)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGXCPU, signal.SIGTERM})


@ends(None)
def settings_of_the_system(tensor):
    """Changes locale, time zone, environment, umask and working directory."""
    import locale
    import os
    import time

    locale.setlocale(locale.LC_ALL, "C.UTF-8")
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    os.environ["OTHER"] = "other"
    del os.environ["HOME"]
    os.umask(0o777)
    os.chdir("/")
