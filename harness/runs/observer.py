"""The observer: everything that is recorded of one run of a trial.

The same code observes the engine under test, its clean original and the independent libraries, so
that a difference between two runs is never a difference between two observers. Two more things are
observed around a run: whether it may affect the next one in its process, and whether the engine
has opened files that are not in the key of its cached results.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import sysconfig
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, combinations, product
from operator import is_, methodcaller
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.random import mtrand

from harness.core import PACKAGES
from harness.core.run import (
    COTANGENT,
    GRAD,
    MODULE_LOG,
    OUTPUT,
    TRAINING_FLAGS,
    Array,
    Digest,
    NumericArray,
    Run,
    TraceStep,
    failure_of,
    pack,
)
from harness.core.vocabulary import Loss, Phase
from harness.engines.calling import origin_of
from harness.engines.library import Creations, Library
from harness.runs.digests import digest_of
from harness.runs.trial import Trial, cotangent_for, draw, line_within, pack_entry

LARGE = 1000
"""The number of elements from which a created leaf is compared by its digest alone."""


def observe(trial: Trial, loss: Loss | None, *, traced: bool = False) -> Run:
    """Run the probe once, and return what was observed, even if it fails.

    With `traced`, the backward walk is recorded too, if the library can record it.
    """
    record = _RunRecord()
    observers = {
        "gradient": _observe_gradients,
        "steps": _observe_steps,
        "module": _observe_module,
        "test": _observe_test,
    }
    generator = _global_generator()
    start = time.perf_counter()
    failure = None
    try:
        with trial.library.tracing(record.trace) if traced else contextlib.nullcontext():
            observers[trial.probe.kind](trial, loss, record)
    except BaseException as error:  # anything that a broken engine raises is an observation
        probe = trial.probe
        line = line_within(probe.source, probe.path, probe.line, error)
        failure = failure_of(record.phase, error, line, record.step, origin_of(error, probe.path))
    return Run(
        probe=trial.probe.name,
        loss=loss,
        leaves=record.leaves,
        output=record.output,
        cotangent=record.cotangent,
        gradients=record.gradients,
        log=record.log,
        leaf_log=record.leaf_log,
        large=record.large,
        not_compared=record.not_compared,
        mutated=record.mutated,
        shared=record.shared,
        generator_moved=_global_generator() != generator,
        trace=[pack_step(step) for step in record.trace],
        failure=failure,
        seconds=time.perf_counter() - start,
    )


class _RunRecord:
    """What has been observed so far, in a run that may still fail."""

    def __init__(self) -> None:
        self.phase = Phase.LEAVES
        self.step: int | None = None
        self.leaves: dict[str, Array] = {}
        self.output: Array | None = None
        self.cotangent: Array | None = None
        self.gradients: dict[str, Array | None] = {}
        self.log: list[dict[str, Array]] = []
        self.leaf_log: list[dict[str, Array]] = []
        self.large: list[dict[str, Digest]] = []
        self.not_compared = 0
        self.mutated: dict[str, Array] = {}
        self.shared: list[tuple[str, str]] = []
        self.trace: list[Any] = []

    def look_at(self, library: Library, leaves: Mapping[str, Any]) -> None:
        """Record the leaves of a probe of steps as they are now."""
        small, large = _snapshot(library, leaves)
        self.leaf_log.append(small)
        self.large.append(large)


# ----- An observer for each kind of probe -----


def _observe_gradients(trial: Trial, loss: Loss | None, record: _RunRecord) -> None:
    values, library = draw(trial.probe), trial.library
    record.leaves = {name: pack(data) for name, data in values.items()}
    leaves = trial.leaves(values)
    before = {name: pack(library.value(leaf)) for name, leaf in leaves.items()}
    record.phase = Phase.FORWARD
    creations = trial.creations()
    with library.creating(creations):
        output = trial.call(leaves)
    record.not_compared = len(creations.unreadable)
    made = {name: pack(library.value(leaf)) for name, leaf in creations.leaves.items()}
    value = library.value(output)
    record.output = pack(value)
    cotangent = cotangent_for(trial.probe.name, loss or "weighted", value.shape)
    cotangent = cotangent.astype(value.dtype)
    record.cotangent = pack(cotangent)
    record.phase = Phase.BACKWARD
    library.backward(output, cotangent)
    created = _created(library, creations)
    large = {name: leaf for name, leaf in created.items() if _is_large(library.value(leaf))}
    for name in created.keys() - large.keys():
        before[name] = made[name]
    leaves |= {name: leaf for name, leaf in created.items() if name not in large}
    record.leaves |= {name: made[name] for name in leaves if name not in values}
    if large:
        record.large.append(_snapshot(library, large)[1])
    gradients = {name: library.gradient(leaf) for name, leaf in leaves.items()}
    for name, gradient in gradients.items():
        record.gradients[name] = None if gradient is None else pack(gradient)
    after = {name: library.value(leaf) for name, leaf in leaves.items()}
    record.mutated = _mutated({**before, "cotangent": record.cotangent}, after, cotangent)
    record.shared = _shared(gradients, {**after, COTANGENT: cotangent, OUTPUT: value})


def _observe_steps(trial: Trial, _: Loss | None, record: _RunRecord) -> None:
    values = draw(trial.probe)
    record.leaves = {name: pack(data) for name, data in values.items()}
    record.phase, record.step = Phase.STEP, 0
    creations, library = trial.creations(), trial.library
    leaves = trial.leaves(values)
    steps = trial.steps(leaves)
    with library.creating(creations):
        for snapshot in steps:
            record.log.append(snapshot)
            record.look_at(library, leaves | creations.leaves)
            record.step = len(record.log)
    record.look_at(library, leaves | creations.leaves)
    record.not_compared = len(creations.unreadable)


def _observe_module(trial: Trial, _: Loss | None, record: _RunRecord) -> None:
    """Call a layer in training mode, evaluation mode and again; see `harness.diagnostics.mode`."""
    values, library = draw(trial.probe), trial.library
    ((name, x),) = values.items()
    record.leaves = {name: pack(x)}
    record.phase = Phase.LAYER
    layer = trial.call(trial.leaves(values))
    modes, inputs = ("train", "eval", "eval", "eval", "train"), (x, x, x, x[:1], x)
    for key, mode, data in zip(MODULE_LOG, modes, inputs, strict=True):
        record.phase = key
        getattr(layer, mode)()
        snapshot: dict[str, Array] = {
            key: pack_entry("output", library.value(layer(library.leaf(data))))
        }
        for part, state in layer.state_dict().items():
            snapshot[f"state.{part}"] = pack_entry(part, library.value(state))
        flags = [bool(getattr(part, "training", False)) for part in layer.modules()]
        record.log.append({**snapshot, TRAINING_FLAGS: pack(flags)})


def _observe_test(trial: Trial, _: Loss | None, record: _RunRecord) -> None:
    """Call a test; only its failure can be observed."""
    record.phase = Phase.TEST
    trial.call({})


# ----- Created leaves -----


def _created(library: Library, creations: Creations) -> dict[str, Any]:
    """Return the created leaves that require a gradient, or have one although they do not."""
    return {
        name: leaf
        for name, leaf in creations.leaves.items()
        if library.requires_gradient(leaf) or library.gradient(leaf) is not None
    }


def _is_large(array: NumericArray) -> bool:
    return array.size >= LARGE


def _snapshot(
    library: Library, leaves: Mapping[str, Any]
) -> tuple[dict[str, Array], dict[str, Digest]]:
    """Return the leaves that have a gradient, and the gradients; large arrays separately.

    A probe may have many steps and large layers, so only digests of these are sent.
    """
    small: dict[str, Array] = {}
    large: dict[str, Digest] = {}
    for name, leaf in leaves.items():
        gradient = library.gradient(leaf)
        if gradient is None:
            continue
        value = library.value(leaf)
        if _is_large(value) or _is_large(gradient):
            large |= {name: digest_of(value), f"{name}{GRAD}": digest_of(gradient)}
        else:
            small |= {name: pack(value), f"{name}{GRAD}": pack(gradient)}
    return small, large


# ----- Side effects -----


def _mutated(
    before: Mapping[str, Array], leaves: Mapping[str, NumericArray], cotangent: NumericArray
) -> dict[str, Array]:
    """Return the inputs whose data has changed, as they are now."""
    after = {name: pack(array) for name, array in {**leaves, "cotangent": cotangent}.items()}
    return {name: array for name, array in after.items() if array != before[name]}


def _shared(
    gradients: Mapping[str, NumericArray | None], others: Mapping[str, NumericArray]
) -> list[tuple[str, str]]:
    """Return the pairs of a gradient and another array that share memory."""
    own = [(f"{name}.grad", array) for name, array in gradients.items() if array is not None]
    pairs = [*combinations(own, 2), *product(own, others.items())]
    return sorted((one, other) for (one, a), (other, b) in pairs if np.shares_memory(a, b))


def _global_generator() -> object:
    """Return a number that changes with every draw from NumPy's global generator."""
    state = mtrand.get_bit_generator().state["state"]
    return state.get("state", state.get("pos"))  # PCG64 has `state`, MT19937 `pos`


def pack_step(step: Any) -> TraceStep:
    """Return a step of a walk, as an engine records it, ready to be sent."""
    return TraceStep(
        step.index,
        step.op,
        step.parents,
        pack(step.value),
        pack(step.cotangent),
        tuple(None if array is None else pack(array) for array in step.handed),
    )


# ----- The process -----
#
# A run that has changed the engine's variables or its process may affect the next run. The check is
# meant for broken engines, not for code that hides its changes: if a value changes inside an object
# that a module refers to, that is not detected.


class EngineState:
    """The variables of an engine's modules and classes, and its process, at the time of creation.

    `builtins`, `os` and NumPy count as modules of the engine.
    """

    def __init__(self, engine: str) -> None:
        """Record the variables of the top-level module `engine` and of its submodules."""
        modules = [
            vars(module)
            for name, module in list(sys.modules.items())
            if name in _USED or name.partition(".")[0] == engine
            if isinstance(module, ModuleType)
        ]
        classes = {
            value: None
            for names in modules
            for value in names.values()
            if isinstance(value, type) and str(value.__module__).partition(".")[0] == engine
        }
        self._spaces = [*modules, *map(vars, classes)]
        self._values = self._current()
        self._containers = [value for value in self._values if type(value) in _CONTAINERS]
        self._lengths = list(map(len, self._containers))
        self._settings: object = None

    def begin_run(self) -> None:
        """Record the settings of the process, which another run may have changed and reset."""
        self._settings = _settings()

    def is_unchanged(self) -> bool:
        """Whether every variable is still the same object, and every container is as long.

        Some settings of the process must also be the same.
        """
        values = self._current()
        return (
            len(values) == len(self._values)
            and False not in map(is_, values, self._values)  # the engine could replace `all`
            and list(map(len, self._containers)) == self._lengths
            and _settings() == self._settings
        )

    def _current(self) -> list[Any]:
        return list(chain.from_iterable(map(methodcaller("values"), self._spaces)))


_USED = "builtins", "os", "numpy", "numpy.linalg"

_CONTAINERS = {list, dict, set}


def _settings() -> object:
    """Return settings of this process that a probe could notice, and that are quick to read."""
    one = 1.0
    try:
        folder = Path().stat()
        return (
            (sys.gettrace(), sys.getprofile(), sys.getrecursionlimit()),
            (sys.stdin, sys.stdout, sys.stderr, os.get_blocking(1)),
            (len(sys.path), len(sys.meta_path), len(warnings.filters), len(gc.callbacks)),
            (gc.isenabled(), threading.active_count()),
            (folder.st_ino, folder.st_mode, folder.st_mtime_ns),
            (one + 1e-17, one - 1e-17),  # how numbers are rounded
        )
    except OSError:  # the folder is missing, or standard output is closed
        return object()  # never equal to another


# ----- Files -----
#
# The key contains the text of the engine's source files, and identifies Python and the installed
# packages. What the system has installed, such as fonts and time zones, is taken as given. The key
# does not cover a table of constants, a compiled kernel or a module in another folder, so a result
# that depends on such a file must not be cached. Code that hides what it reads is not detected.

_PATH_ARGUMENT = {"open": 0, "import": 1, "ctypes.dlopen": 0, "sqlite3.connect": 0}
"""The position of a file's path in the arguments of audit events."""

_COMMANDS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"}
"""Audit events of programs, such as a compiler, that may read the files they are called with."""

_SYSTEM = (
    *("/dev/", "/proc/", "/sys/", "/etc/", "/bin/", "/sbin/", "/lib/", "/lib64/"),
    *("/usr/bin/", "/usr/sbin/", "/usr/lib/", "/usr/lib64/", "/usr/share/"),
    *("/System/", "/Library/Fonts/"),
)
"""The folders of the system itself. People install their own files elsewhere."""

_ZIPPED = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
"""The standard library as one file; imports look for it even if it does not exist."""


class OtherFiles:
    """Records whether this process opens files that are neither installed nor engine sources."""

    def __init__(self, root: Path, sources: Iterable[str]) -> None:
        """`sources` are the engine's files, as paths below `root`."""
        sources = list(sources)
        tops = {file.partition("/")[0] for file in sources if "/" in file}
        self._sources = {str(root / file) for file in sources}
        self._packages = tuple(_prefix(root / top) for top in tops)
        here = Path.cwd()  # the scratch folder; the environment may name it by a link
        scratch = here, os.environ.get("TMPDIR", here)
        self._known = (*_INSTALLED, *map(_prefix, scratch), *_SYSTEM)
        self.opened = False

    def watch(self) -> None:
        """Watch this process and its forks, until they end."""
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.opened:
            return
        if event in _PATH_ARGUMENT:
            path = arguments[_PATH_ARGUMENT[event]]
            if isinstance(path, str | bytes | os.PathLike):  # not a file descriptor or None
                self.opened = not self._is_known(path)
        elif event in _COMMANDS:
            self.opened = not all(map(self._is_known, _named(arguments)))

    def _is_known(self, path: str | bytes | os.PathLike[str]) -> bool:
        try:
            name = os.path.abspath(os.fsdecode(path))  # noqa: PTH100  installed files may be links
        except (OSError, ValueError):
            return False
        if name in self._sources:
            return True
        inside = f"{name}{os.sep}"  # a temporary file may be opened by its folder alone
        return inside.startswith(self._known) and not inside.startswith(self._packages)


def _named(arguments: Iterable[object]) -> Iterator[str]:
    """Yield the working folder and the absolute paths in the arguments of a command's event."""
    yield os.curdir
    for argument in arguments:
        for word in argument if isinstance(argument, list | tuple) else [argument]:
            if isinstance(word, str | bytes | os.PathLike):  # or the environment, or nothing
                yield from filter(os.path.isabs, os.fsdecode(word).split())


def _installed() -> set[str]:
    """Return the folders of Python's library, of installed packages and of our own."""
    folders = {Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")}
    ends = "-packages", "lib-dynload", _ZIPPED
    folders |= {Path(entry) for entry in sys.path if entry.endswith(ends)}
    folders |= {PACKAGES / "harness", PACKAGES / "minigrad"}
    folders |= {folder.resolve() for folder in folders}  # a library may resolve its own path
    return set(map(_prefix, folders))


def _prefix(folder: Path | str) -> str:
    return f"{folder}{os.sep}"


_INSTALLED = _installed()
"""Looked up once, in the host: doing it in each fork would copy hundreds of pages of memory."""
