"""A trial: a probe on a library, in the process that runs both, and what is observed.

The same code observes the engine under test, its clean original and the independent libraries, so
that a difference between two runs is never a difference between two observers.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import combinations, product
from types import CodeType
from typing import Any

import numpy as np
from numpy.random import mtrand

from harness.core.rounding import agree, resolution, rounding
from harness.core.run import (
    COTANGENT,
    GRAD,
    MODULE_LOG,
    OUTPUT,
    REAL,
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
from harness.pages.probe import Probe
from harness.runs.digests import digest_of
from harness.runs.inputs import cotangent_for, draw

LARGE = 1000
"""The number of elements from which a created leaf is compared by its digest alone."""


class ReplyCache:
    """What a library has computed for one probe, by its inputs.

    The losses of a probe share it: neither the output nor the gradient for a cotangent depends on
    the loss.
    """

    def __init__(self) -> None:
        self.stored: dict[_Key, dict[str, NumericArray]] = {}
        self.outputs: dict[_Key, NumericArray] = {}
        self.gradients: dict[_Key, tuple[NumericArray, dict[str, NumericArray | None]]] = {}


_Key = tuple[tuple[str, str, tuple[int, ...], bytes], ...]
"""Arrays by name: for each, its name, dtype, shape and data."""


class Trial:
    """A probe on a library, which diagnostics may run any number of times.

    `stored`, `output` and `gradients` call the library once for equal arguments, and return
    read-only copies. To check whether the library is deterministic, compare them with the run.
    """

    def __init__(self, library: Library, probe: Probe, cache: ReplyCache | None = None) -> None:
        self.library, self.probe, self._cache = library, probe, cache or ReplyCache()
        names: dict[str, Any] = {"__name__": "probes"}
        exec(compile_at(probe.source, probe.path, probe.line), names)  # noqa: S102  a probe is code
        self.function: Callable[..., Any] = names[probe.function]

    def leaves(self, values: Mapping[str, NumericArray]) -> dict[str, Any]:
        """Return new leaves that hold copies of `values`."""
        return {name: self.library.leaf(np.asarray(data)) for name, data in values.items()}

    def call(self, leaves: Mapping[str, Any], **options: Any) -> Any:
        """Return what the probe returns for these leaves; it creates others itself."""
        leaves = {leaf.name: leaves[leaf.name] for leaf in self.probe.leaves}
        seed = self.probe.seed
        arguments: tuple[Any, ...] = (self.library.module,) if self.probe.takes_lib else ()
        arguments += () if seed is None else (np.random.default_rng(seed),)
        return self.library.call(self.function, arguments, leaves, **options)

    def forward(self, values: Mapping[str, NumericArray]) -> tuple[dict[str, Any], Any]:
        """Return new leaves, and the probe's output for them.

        The values of leaves that the probe creates are those that they have when it ends. Raises
        NotHeld if one of these leaves is not created, or has another value then.
        """
        own = {leaf.name for leaf in self.probe.leaves}
        declared = {name: data for name, data in values.items() if name in own}
        held = {name: data for name, data in values.items() if name not in own}
        leaves = self.leaves(declared)
        if not held:
            return leaves, self.call(leaves)
        creations = self.creations(self.constants | held)
        with self.library.creating(creations):
            output = self.call(leaves)
        for name, data in held.items():
            leaf = creations.leaves.get(name)
            if leaf is None or not np.array_equal(self.library.value(leaf), data, equal_nan=True):
                raise NotHeld(name)
            leaves[name] = leaf
        return leaves, output

    @cached_property
    def constants(self) -> dict[str, NumericArray]:
        """The values of the tensors that the probe creates and that require no gradient.

        They are fixed too: what a program stores in one leaf may be computed from another's data.
        """
        creations, library = self.creations(), self.library
        with library.creating(creations):
            self.call(self.leaves(draw(self.probe)))
        return {
            name: np.array(library.value(leaf))
            for name, leaf in creations.leaves.items()
            if not library.requires_gradient(leaf)
        }

    def creations(self, values: Mapping[str, NumericArray] | None = None) -> Creations:
        """Return a recorder of the leaves that the probe creates, which fixes these values."""
        return Creations(self.probe.path, values)

    def measurable(self, run: Run) -> Run:
        """Return the run without created leaves, if the probe cannot be run with given values.

        It cannot if it changes these leaves after using them, or if the engine does not allow it.
        """
        own = {leaf.name for leaf in self.probe.leaves}
        if run.leaves.keys() <= own or run.output is None:
            return run
        try:
            again = self.output(run.values())
        except Exception:
            return run.only(own)
        output = run.output.numpy()
        eps = resolution(output, again)
        return run if agree(again, output, rounding(again.size, eps)) else run.only(own)

    def stored(self, values: Mapping[str, NumericArray]) -> dict[str, NumericArray]:
        """Return the data of new leaves that were made from `values`."""
        key, cache = _key(values), self._cache.stored
        if key not in cache:
            leaves = self.leaves(values)
            cache[key] = {name: _copy(self.library.value(leaf)) for name, leaf in leaves.items()}
        return cache[key]

    def output(self, values: Mapping[str, NumericArray]) -> NumericArray:
        """Return the value of the probe's output, without a backward pass."""
        key, cache = _key(values), self._cache.outputs
        if key not in cache:
            cache[key] = _copy(self.library.value(self.forward(values)[1]))
        return cache[key]

    def gradients(
        self, values: Mapping[str, NumericArray], cotangent: NumericArray
    ) -> tuple[NumericArray, dict[str, NumericArray | None]]:
        """Return the output for new leaves with these values, and their gradients."""
        key, cache = _key({**values, "": cotangent}), self._cache.gradients
        if key not in cache:
            leaves, output = self.forward(values)
            value = self.library.value(output)
            self.library.backward(output, np.array(cotangent, value.dtype))
            gradients = {name: self.library.gradient(leaf) for name, leaf in leaves.items()}
            cache[key] = (
                _copy(value),
                {name: None if g is None else _copy(g) for name, g in gradients.items()},
            )
        return cache[key]

    def precision(self, run: Run) -> float:
        """Return the coarsest machine epsilon of a run's leaves (passed and stored) and output."""
        leaves = run.values()
        output = [run.output.numpy()] if run.output else []
        return resolution(*leaves.values(), *self.stored(leaves).values(), *output)

    def steps(self, leaves: Mapping[str, Any], **options: Any) -> Iterator[dict[str, Array]]:
        """Return the snapshots of a probe of steps, one by one."""
        snapshots = self.call(leaves, **options)
        return (
            {name: _pack_entry(name, self.library.value(t)) for name, t in part.items()}
            for part in snapshots
        )


class NotHeld(Exception):
    """A leaf that the probe creates does not have the value that it should have."""


_WORDS = "loss", "output"


def _pack_entry(name: str, value: NumericArray) -> Array:
    """Return an entry of a log. Raises TypeError if it is complex: no diagnostic can order it."""
    array = pack(value)
    if array.dtype[1] not in REAL:
        raise TypeError(f"the {name} is complex" if name in _WORDS else f"`{name}` is complex")
    return array


def _key(arrays: Mapping[str, NumericArray]) -> _Key:
    return tuple(
        (name, array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()
    )


def _copy(array: NumericArray) -> NumericArray:
    """Return a read-only copy."""
    copy = np.array(array)
    copy.setflags(write=False)
    return copy


@lru_cache(maxsize=1024)
def compile_at(source: str, path: str, line: int) -> CodeType:
    """Compile code whose first line is at line `line` of the file `path`."""
    return compile("\n" * (line - 1) + source, path, "exec")


def observe(trial: Trial, loss: Loss | None, *, traced: bool = False) -> Run:
    """Run the probe once, and return what was observed, even if it fails.

    With `traced`, the backward walk is recorded too, if the library can record it.
    """
    record = _Record()
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
        place = _probe_line(trial.probe, error), record.step
        failure = failure_of(record.phase, error, *place, origin_of(error, trial.probe.path))
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


class _Record:
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


def _observe_gradients(trial: Trial, loss: Loss | None, record: _Record) -> None:
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


def _observe_steps(trial: Trial, _: Loss | None, record: _Record) -> None:
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


def _observe_module(trial: Trial, _: Loss | None, record: _Record) -> None:
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
            key: _pack_entry("output", library.value(layer(library.leaf(data))))
        }
        for part, state in layer.state_dict().items():
            snapshot[f"state.{part}"] = _pack_entry(part, library.value(state))
        flags = [bool(getattr(part, "training", False)) for part in layer.modules()]
        record.log.append({**snapshot, TRAINING_FLAGS: pack(flags)})


def _observe_test(trial: Trial, _: Loss | None, record: _Record) -> None:
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


def _probe_line(probe: Probe, error: BaseException) -> str:
    return line_within(probe.source, probe.path, probe.line, error)


def line_within(source: str, path: str, line: int, error: BaseException) -> str:
    """Return the line of a text that was being executed when the exception passed through it.

    The text starts at `line` of the file `path`. The result is empty if no frame is in the text.
    """
    lines, line_text, traceback = source.splitlines(), "", error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == path:
            index = traceback.tb_lineno - line
            line_text = lines[index].strip() if 0 <= index < len(lines) else line_text
        traceback = traceback.tb_next
    return line_text
