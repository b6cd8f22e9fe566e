"""What a graded suite cannot see: the code of the engine that it tests.

A break is composed so that it looks like its twin (see `harness.grade.twins`), but code that
inspects two versions of a program can tell them apart. So the suite's process shows no code of the
engine at all. What is refused depends on the object, not on the caller: no caller may read the code
of an engine's function, frame or traceback. Functions that lead from an object to all others, such
as `gc.get_objects`, are refused to everyone. Every caller may read everything else.

What must stay secret is held by a generator, the *keeper*. Only its stack refers to the function
that knows the key, and the code that replaces other code. A frame shows its variables and not its
stack, so even code that interrupts the keeper cannot get at that function. The suite can call the
keeper and patch everything around it, but it can only pass on messages that it cannot read. The
keeper works with private copies of its modules and of the builtins. It accepts only objects of a
few exact types, so it calls nothing of the suite, and works only if nothing can interrupt it: see
`_attend`.

This is not a sandbox: see `docs/safety.md` for what remains possible.
"""

from __future__ import annotations

import _thread
import builtins
import gc
import hashlib
import importlib
import importlib.util
import marshal
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from itertools import repeat
from pathlib import Path
from types import (
    AsyncGeneratorType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    ModuleType,
    TracebackType,
)
from typing import Any

from harness.core.site import HOOKS
from harness.engines.loading import FileCodes, MemoryFinder

Keeper = Generator[Any, Any, None]
"""Receives requests (tuples of a name and arguments) and yields a reply to each: see `keep`."""

Control = Callable[..., Any]
"""Changes what the audit hook refuses: see `_judge`."""


# ----- Sealed messages -----


def seal(key: bytes, nonce: bytes, message: bytes) -> bytes:
    """Return a message that only the owner of the key can read; use each nonce only once."""
    return nonce + _combine(message, hashlib.shake_256(key + nonce).digest(len(message)))


def sealed_codes(key: bytes, nonce: bytes, codes: Mapping[str, bytes], *, visible: bool) -> bytes:
    """Return packed files in a sealed message; b"" if there are none.

    With `visible`, the replacement code need not be hidden.
    """
    return seal(key, nonce, marshal.dumps((visible, dict(codes)))) if codes else b""


def _opened(key: bytes, message: bytes) -> tuple[bool, dict[str, CodeType]]:
    nonce, text = message[:_NONCE], message[_NONCE:]
    stream = hashlib.shake_256(key + nonce).digest(len(text))
    visible, codes = marshal.loads(_combine(text, stream))
    return visible, {file: marshal.loads(code) for file, code in codes.items()}


def _combine(one: bytes, other: bytes) -> bytes:
    """Return the exclusive or of two byte strings of the same length."""
    number = int.from_bytes(one, "big") ^ int.from_bytes(other, "big")
    return number.to_bytes(len(one), "big")


_NONCE = 16

# ----- Code without lines -----


def without_lines(code: CodeType) -> CodeType:
    """Return code in which everything is on the first line of its function.

    Otherwise the line numbers of frames, tracebacks and warnings would show what is executed.
    """
    return _without_lines(code, Counter())


def _without_lines(code: CodeType, met: Counter[tuple[str, int]]) -> CodeType:
    place = code.co_qualname, code.co_firstlineno
    number, met[place] = met[place], met[place] + 1
    constants = tuple(
        _without_lines(constant, met) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    table = _table(len(code.co_code) // 2, number)
    return code.replace(co_consts=constants, co_linetable=table)


def _table(length: int, number: int) -> bytes:
    """Return a location table for code of this length, with everything on the first line.

    Different numbers give different tables, so that two functions on one line, such as lambdas,
    remain different. See `Objects/locations.md` in CPython: an entry covers at most 8 instructions.
    """
    table, start = bytearray(), 0
    for end in range(1, length + 1):
        if end == length or end - start == 8 or number >> (end - 1) & 1:
            table += bytes([0x80 | _NO_COLUMNS << 3 | end - start - 1, 0])
            start = end
    return bytes(table)


_NO_COLUMNS = 13

# ----- The keeper -----


def private_keeper() -> Callable[..., Keeper]:
    """Return `keep` from a copy of this module that nothing else refers to."""
    own, loading = private_copy(__name__), private_copy("harness.engines.loading")
    return partial(own.keep, loading)


def private_copy(name: str) -> ModuleType:
    """Return a new copy of a module, with its own copies of the builtins and of what it imports."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__builtins__"] = dict(vars(builtins))
    spec.loader.exec_module(module)
    for imported, value in list(vars(module).items()):
        if type(value) is ModuleType:
            copy = ModuleType(value.__name__)
            copy.__dict__.update(vars(value))
            module.__dict__[imported] = copy
    return module


def keep(
    loading: Any, root: Path, files: FileCodes, key: bytes, changed: bytes
) -> tuple[Keeper, dict[str, Keeper], Callable[[], list[str]]]:
    """Make this process blind to an engine's code.

    Returns the keeper, a loader for each file, and a function that returns what was refused since
    its last call.

    Parameters
    ----------
    loading : module
        A private copy of `harness.engines.loading`.
    root : Path
        The folder of the engine.
    files : mapping from str to CodeType
        The files of the clean engine.
    key : bytes
        The key of sealed messages.
    changed : bytes
        A sealed message with the files that are loaded instead of clean ones, or b"".

    Notes
    -----
    The keeper accepts the following requests. It replies None to any other, and to all of them if
    something could interrupt it.

    - `"record"`: allow recording what frames execute, if the code is clean; reply True.
    - `"collected", called`: find the functions, of which `called` have run; end the recording.
    - `"swap", message`: replace code; reply whether that was possible.
    - `"code", file, namespace`: reply with a module's code, if its own loader requests it.
    """
    paths = frozenset({str(root / file) for file in files} | {__file__, loading.__file__})
    hook, control, take_refused = _judge(paths)
    for namespace in (globals(), vars(loading)):
        control("hide", namespace)
    frames: dict[str, FrameType] = {}
    keeper = _attended(_service(loading, files, key, changed, control, frames), control)
    busy = compile(f"raise ImportError({_BUSY!r})", "", "exec")
    loaders = {file: _bare(_run_module)(keeper, file, exec, BaseException, busy) for file in files}
    frames.update((file, loader.gi_frame) for file, loader in loaders.items())
    for loader in loaders.values():
        next(loader)
    real_sys, real_gc = sys.modules["sys"], sys.modules["gc"]  # this module has copies
    for name in ("settrace", "setprofile"):
        # `threading` also uses them to install trace functions in new threads.
        tracer = _attended(_installer(getattr(sys, name), control), control)
        setattr(real_sys, name, tracer.send)
    # A callback could run while the keeper works, and read the variables of its caller.
    vars(real_gc)["callbacks"] = []
    sys.addaudithook(hook)
    return keeper, loaders, take_refused


Service = Callable[[None, Any], object]
"""Replies to a message; the first argument means nothing."""


def _service(
    loading: Any,
    files: FileCodes,
    key: bytes,
    changed: bytes,
    control: Control,
    frames: Mapping[str, FrameType],
) -> Service:
    """Return what the keeper does; `frames` are those of the loaders."""
    current = dict(files)
    functions: Any = None
    clean = not changed
    if changed:
        current.update(_opened(key, changed)[1])
    own = frozenset(id(code) for file in current.values() for code in _all_code(file))

    def serve(_: None, message: Any) -> object:
        # Types are compared by identity, since anything else could call a method of the suite.
        nonlocal functions, clean
        if type(message) is not tuple or not message or type(message[0]) is not str:
            return None
        request, *arguments = message
        kinds = [*map(type, arguments), None, None]
        if request == "record":
            control("visible", clean)
            return True
        if request == "collected" and (kinds[0] is list or arguments == [None]):
            control("working", True)
            functions = _functions_of(loading, files, arguments[0], own)
            _end_recording(control)
            control("working", False)
        if request == "swap" and kinds[0] is bytes and functions is not None:
            control("working", True)
            visible, codes = _opened(key, arguments[0])
            pairs = functions.plan(codes)
            clean = False
            _end_recording(control)
            if pairs is not None:
                functions.swap(pairs)
                current.update(codes)
                control("visible", visible)
            control("working", False)
            return pairs is not None
        if request == "code" and kinds[0] is str and kinds[1] is dict:
            file, namespace = arguments[:2]
            if frames.get(file) is sys._getframe(2):
                control("hide", namespace)
                functions = None  # the new functions are not among them
                return current[file]
        return None

    return serve


def _all_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _all_code(constant)


def _end_recording(control: Control) -> None:
    """Remove trace functions that were installed while anyone could install them."""
    if control("visible?"):
        for remove in (_settrace, _setprofile):
            remove(None)
    control("visible", False)


def _functions_of(
    loading: Any, files: FileCodes, called: list[object] | None, own: frozenset[int]
) -> Any:
    """Return the functions with the engine's own code, of which `called` have run."""
    known = None if called is None else {code for code in called if id(code) in own}
    return loading.Functions(files, known, own)


_settrace, _setprofile = sys.settrace, sys.setprofile

# ----- Code that others can see while it runs -----
#
# The frames of these functions are between the suite and the engine, so the suite can reach their
# variables and globals. Their globals are empty, and no variable holds a secret.


def _bare(function: Any) -> Any:
    """Return a copy of a function whose globals are empty."""
    return FunctionType(
        function.__code__,
        {"__builtins__": {}},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def _attended(service: Service, control: Control) -> Keeper:
    """Return a generator that passes what is sent to a service, if nothing can interrupt it."""
    signals = signal.valid_signals()
    own = sys.modules["_signal"]  # functions that are written in C: nothing in them can be changed
    tasks = "/proc/self/task"
    attend = _bare(_attend)
    control("hide", attend.__globals__)  # trace functions do not see its frames
    keeper: Keeper = attend(
        [repeat(service)],
        *(gc.isenabled, gc.disable, gc.enable),
        *(own.pthread_sigmask, int(signal.SIG_BLOCK), int(signal.SIG_SETMASK), frozenset(signals)),
        frozenset(signals) - {signal.SIGKILL, signal.SIGSTOP},
        *(_thread.get_native_id, os.getpid),
        *((os.listdir, (tasks,)) if Path(tasks).is_dir() else (_thread._count, ())),
        *(time.sleep, (0.001,) * 5),
    )
    next(keeper)
    return keeper


def _attend(
    services: list[Any],
    collects: Any,
    disable: Any,
    enable: Any,
    mask: Any,
    block: int,
    restore: int,
    signals: frozenset[int],
    most: frozenset[int],
    thread: Any,
    process: Any,
    listed: Any,
    where: Any,
    sleep: Any,
    pauses: Any,
) -> Keeper:
    """Pass messages to a service while no handler, finalizer or other thread can interrupt it.

    Python may run a handler wherever this function calls something, or goes on after a `yield`. A
    handler sees the variables, so `serve` is None at all of these places: the service is on the
    stack. In the first thread, handlers also run for signals that other threads receive. So the
    service is not called there if there are others.
    """
    message = blocked = enabled = alone = None
    for serve in services.pop():
        message = yield (
            serve((serve := None), message) if alone else (serve := None),
            blocked is not None and mask(restore, blocked),
            enabled and enable(),
        )[0]
        enabled = collects()
        disable()
        blocked = mask(block, signals)  # afterwards, handlers of earlier signals run
        for pause in pauses:  # a thread that has been joined takes a moment to end
            alone = thread() != process() or listed(*where).__len__() == 1
            if alone:
                break
            sleep(pause)
        alone = alone and mask(block, signals) >= most


def _run_module(keeper: Keeper, file: str, execute: Any, failure: Any, busy: Any) -> Keeper:
    """Execute a module's code in each namespace that is sent; yield what it raises."""
    error = None
    while True:
        namespace = yield error
        try:
            execute(keeper.send(("code", file, namespace)) or busy, namespace)
            error = None
        except failure as raised:
            error = raised


def _installer(install: Any, control: Control) -> Service:
    """Return what installs trace functions so that they do not see what the engine does."""

    def serve(_: None, function: Any) -> None:
        control("working", True)
        install(None if function is None else _without_engine(function, control("hidden")))
        control("working", False)

    return serve


def _without_engine(function: Any, hidden: frozenset[int]) -> Any:
    """Return a trace function that is not called for the engine, nor for what the engine calls."""
    identity = id

    def trace(frame: Any, event: str, argument: object) -> object:
        outer = frame
        while outer is not None:
            if identity(outer.f_globals) in hidden:
                return None
            outer = outer.f_back
        return function(frame, event, argument)

    return _bare(trace)


_BUSY = "a graded suite cannot import the engine while it runs other threads"

_REFUSED = frozenset(
    {
        *("gc.get_objects", "gc.get_referrers", "gc.get_referents"),
        *("sys._current_frames", "sys._current_exceptions", "sys.addaudithook"),
        *("sys.settrace", "sys.setprofile", "sys.monitoring.register_callback"),
        *("ctypes.dlsym", "ctypes.dlsym/handle", "ctypes.cdata"),
        *("ctypes.string_at", "ctypes.wstring_at", "ctypes.PyObj_FromPtr", "ctypes.call_function"),
    }
)
"""Audit events that no test needs, and that expose the objects or the memory of a process."""

_MODULES = frozenset({"_testcapi", "_testinternalcapi", "_xxsubinterpreters", "_interpreters"})

_CODES = {GeneratorType: "gi_code", CoroutineType: "cr_code", AsyncGeneratorType: "ag_code"}


def _judge(paths: frozenset[str]) -> tuple[Any, Control, Callable[[], list[str]]]:
    """Return the audit hook, what controls it, and what returns and forgets the refused events.

    They use only their own variables, since anything else can be patched. The values of these
    variables are immutable, so code that sees a frame of the hook cannot change what it refuses.
    """
    visible, working = False, 0
    hidden: frozenset[int] = frozenset()
    kept: tuple[object, ...] = ()  # otherwise, an id could be reused
    refused: tuple[str, ...] = ()
    nested: tuple[object, int] | None = None
    """What the hook itself looks at, and the thread in which it does."""
    kind, identity, get, thread = type, id, getattr, _thread.get_ident
    function, frame, traceback, instance = FunctionType, FrameType, TracebackType, isinstance
    text, last = ((str, "mem"), (bytes, b"mem")), slice(-3, None)
    generators = tuple(_CODES.items())
    events, modules, recording = _REFUSED, _MODULES, ("sys.settrace", "sys.setprofile")
    # Libraries expect these: a TypeError as for a function that is written in C, and a RuntimeError
    # as for a frame that cannot be cleared.
    errors = (("tb_frame", RuntimeError), ("import", ImportError), ("open", PermissionError))
    usual = TypeError

    def is_hidden(item: Any, name: str) -> bool:
        nonlocal nested
        if kind(item) is function:
            return name == "__code__" and identity(item.__globals__) in hidden
        if kind(item) is frame:
            return not visible and identity(item.f_globals) in hidden
        if kind(item) is traceback:
            nested = item, thread()
            own = item.tb_frame
            nested = None
            return not visible and identity(own.f_globals) in hidden
        for generator, attribute in generators:
            if kind(item) is generator:
                nested = item, thread()
                code = get(item, attribute)
                nested = None
                return code.co_filename in paths
        return False

    def is_nested(item: Any) -> bool:
        own = nested
        return own is not None and own[0] is item and own[1] == thread()

    judge, is_nested = _bare(is_hidden), _bare(is_nested)

    def hook(event: str, arguments: Any) -> None:
        nonlocal refused
        what = event
        if event == "object.__getattr__":
            item, what = arguments
            if working == thread() or is_nested(item) or not judge(item, what):
                return
        elif event in events:
            if working == thread() or (visible and event in recording):
                return
        elif event == "import":
            what = arguments[0]
            if what not in modules:
                return
        elif event == "open":
            path, what = arguments[0], "/proc/self/mem"
            for base, end in text:
                if instance(path, base) and base.__getitem__(path, last) == end:
                    break
            else:
                return
        else:
            return
        if what != "tb_frame" and what not in refused:  # libraries read it to clear any traceback
            refused += (what,)
        refusal: Any = usual
        for name, other in errors:
            if name in (event, what):
                refusal = other
        raise refusal(f"a graded suite cannot look at the code of the engine: {what}")

    def control(word: str, value: Any = None) -> Any:
        nonlocal visible, working, hidden, kept
        if word == "working":
            working = thread() if value else 0
        elif word == "visible":
            visible = value
        elif word == "hide":
            hidden |= {identity(value)}
            kept += (value,)
        return hidden if word == "hidden" else visible

    def take_refused() -> list[str]:
        nonlocal refused
        found, refused = refused, ()
        return [*found]

    own = _bare(hook), _bare(control), _bare(take_refused)
    for each in (judge, is_nested, *own):  # their frames are in the tracebacks of what they raise
        own[1]("hide", each.__globals__)
    return own


# ----- Imports -----


class SealedFinder(MemoryFinder):
    """Finds the engine's modules; only their loaders can execute them, and none has source text.

    Parameters
    ----------
    root : Path
        The folder of the engine.
    loaders : mapping from str to Keeper
        The loader that executes each file: see `keep`.
    """

    def __init__(self, root: Path, loaders: Mapping[str, Keeper]) -> None:
        super().__init__(root, dict.fromkeys(loaders, ""), (), HOOKS)
        self.loaders = loaders

    def execute(self, file: str, namespace: dict[str, Any]) -> None:
        """Execute a file; raises whatever the file raises."""
        namespace.setdefault("__builtins__", vars(builtins))  # the loader itself has none
        error = self.loaders[file].send(namespace)
        if error is not None:
            raise error
