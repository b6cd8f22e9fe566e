"""A trial: a probe bound to a library, in the process that runs both, and what is observed of it.

The same code observes the engine under test, its clean original and the independent libraries, so
that a difference between two runs is never a difference between two observers.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import combinations, product
from types import CodeType
from typing import Any

import numpy as np
from numpy.random import mtrand

from harness.core.run import (
    Array,
    Failure,
    NumericArray,
    Run,
    TraceStep,
    message_of,
    pack,
)
from harness.core.vocabulary import Loss
from harness.engines.library import Library
from harness.pages.probe import Probe
from harness.runs.inputs import cotangent_for, draw


class Answers:
    """What a library has answered about one probe, so that nobody has to ask the same again.

    The losses of a probe share it: neither the output nor a gradient for a given cotangent depends
    on them.
    """

    def __init__(self) -> None:
        self.held: dict[_Key, dict[str, NumericArray]] = {}
        self.outputs: dict[_Key, NumericArray] = {}
        self.gradients: dict[_Key, tuple[NumericArray, dict[str, NumericArray | None]]] = {}


_Key = tuple[tuple[str, str, tuple[int, ...], bytes], ...]
"""Arrays by name, each with all that it is."""


class Trial:
    """One probe on one library, ready to be run as often as a diagnostic likes.

    `held`, `output` and `gradients` ask the library once for the same numbers, and give read-only
    copies; whoever wants to see whether it answers alike each time compares with the run.
    """

    def __init__(self, library: Library, probe: Probe, known: Answers | None = None) -> None:
        self.library, self.probe, self._known = library, probe, known or Answers()
        names: dict[str, Any] = {"__name__": "probes"}
        exec(_compiled(probe.source, probe.path, probe.line), names)  # noqa: S102  it is code by design
        self.function: Callable[..., Any] = names[probe.function]

    def leaves(self, values: Mapping[str, NumericArray]) -> dict[str, Any]:
        """New leaves that hold copies of `values`."""
        return {name: self.library.leaf(np.asarray(data)) for name, data in values.items()}

    def call(self, leaves: Mapping[str, Any], **options: Any) -> Any:
        """What the probe returns for these leaves."""
        given = (self.library.module,) if self.probe.takes_lib else ()
        return self.library.call(self.function, given, leaves, **options)

    def forward(self, values: Mapping[str, NumericArray]) -> tuple[dict[str, Any], Any]:
        """New leaves, and the probe's output for them."""
        leaves = self.leaves(values)
        return leaves, self.call(leaves)

    def held(self, values: Mapping[str, NumericArray]) -> dict[str, NumericArray]:
        """What the library holds for leaves of these values."""
        key, known = _key(values), self._known.held
        if key not in known:
            leaves = self.leaves(values)
            known[key] = {name: _kept(self.library.value(leaf)) for name, leaf in leaves.items()}
        return known[key]

    def output(self, values: Mapping[str, NumericArray]) -> NumericArray:
        """The value of the probe's output, no gradient asked."""
        key, known = _key(values), self._known.outputs
        if key not in known:
            known[key] = _kept(self.library.value(self.forward(values)[1]))
        return known[key]

    def gradients(
        self, values: Mapping[str, NumericArray], cotangent: NumericArray
    ) -> tuple[NumericArray, dict[str, NumericArray | None]]:
        """The output for new leaves that hold `values`, and their gradients for `cotangent`."""
        key, known = _key({**values, "": cotangent}), self._known.gradients
        if key not in known:
            leaves, output = self.forward(values)
            value = self.library.value(output)
            self.library.backward(output, np.array(cotangent, value.dtype))
            gradients = {name: self.library.gradient(leaf) for name, leaf in leaves.items()}
            known[key] = (
                _kept(value),
                {name: None if g is None else _kept(g) for name, g in gradients.items()},
            )
        return known[key]

    def steps(
        self, values: Mapping[str, NumericArray], **options: Any
    ) -> Iterator[dict[str, Array]]:
        """The snapshots that a probe of steps yields, as they come."""
        for snapshot in self.call(self.leaves(values), **options):
            yield {name: pack(self.library.value(seen)) for name, seen in snapshot.items()}


def _key(arrays: Mapping[str, NumericArray]) -> _Key:
    return tuple(
        (name, array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()
    )


def _kept(array: NumericArray) -> NumericArray:
    kept = np.array(array)
    kept.setflags(write=False)
    return kept


@lru_cache(maxsize=1024)
def _compiled(source: str, path: str, line: int) -> CodeType:
    return compile("\n" * (line - 1) + source, path, "exec")


def observe(trial: Trial, loss: Loss | None, *, traced: bool = False) -> Run:
    """Run the trial once and record what can be seen, however it ends.

    With `traced` the backward walk is recorded too, where the library can tell it.
    """
    record = _Record()
    watch = {
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
            watch[trial.probe.kind](trial, loss, record)
    except BaseException as error:  # whatever a broken engine raises is an observation
        failure = Failure(
            record.phase,
            type(error).__name__,
            message_of(error),
            _probe_line(trial.probe, error),
            record.step,
        )
    return Run(
        probe=trial.probe.name,
        loss=loss,
        leaves=record.leaves,
        output=record.output,
        cotangent=record.cotangent,
        gradients=record.gradients,
        log=record.log,
        mutated=record.mutated,
        shared=record.shared,
        generator_moved=_global_generator() != generator,
        trace=[_pack_step(step) for step in record.trace],
        failure=failure,
        seconds=time.perf_counter() - start,
    )


class _Record:
    """What has been seen so far: a run that is still going on."""

    def __init__(self) -> None:
        self.phase = "the leaves"
        self.step: int | None = None
        self.leaves: dict[str, Array] = {}
        self.output: Array | None = None
        self.cotangent: Array | None = None
        self.gradients: dict[str, Array | None] = {}
        self.log: list[dict[str, Array]] = []
        self.mutated: dict[str, Array] = {}
        self.shared: list[tuple[str, str]] = []
        self.trace: list[Any] = []


# ----- One way of watching a kind of probe -----


def _observe_gradients(trial: Trial, loss: Loss | None, record: _Record) -> None:
    values, library = draw(trial.probe), trial.library
    record.leaves = {name: pack(data) for name, data in values.items()}
    leaves = trial.leaves(values)
    before = {name: pack(library.value(leaf)) for name, leaf in leaves.items()}
    record.phase = "the forward pass"
    output = trial.call(leaves)
    value = library.value(output)
    record.output = pack(value)
    given = cotangent_for(trial.probe.name, loss or "weighted", value.shape).astype(value.dtype)
    record.cotangent = pack(given)
    record.phase = "the backward pass"
    library.backward(output, given)
    gradients = {name: library.gradient(leaf) for name, leaf in leaves.items()}
    for name, gradient in gradients.items():
        record.gradients[name] = None if gradient is None else pack(gradient)
    held = {name: library.value(leaf) for name, leaf in leaves.items()}
    record.mutated = _mutated({**before, "cotangent": record.cotangent}, held, given)
    record.shared = _shared(gradients, {**held, "the cotangent": given, "the output": value})


def _observe_steps(trial: Trial, _: Loss | None, record: _Record) -> None:
    values = draw(trial.probe)
    record.leaves = {name: pack(data) for name, data in values.items()}
    record.phase, record.step = "step", 0
    for snapshot in trial.steps(values):
        record.log.append(snapshot)
        record.step = len(record.log)


def _observe_module(trial: Trial, _: Loss | None, record: _Record) -> None:
    """Take a layer through training, evaluation and back; see `harness.diagnostics.mode`."""
    values, library = draw(trial.probe), trial.library
    ((name, x),) = values.items()
    record.leaves = {name: pack(x)}
    record.phase = "making the layer"
    layer = trial.call(trial.leaves(values))
    for key, mode, given in (
        ("train", "train", x),
        ("eval", "eval", x),
        ("eval again", "eval", x),
        ("eval, first row", "eval", x[:1]),
        ("train again", "train", x),
    ):
        record.phase = key
        getattr(layer, mode)()
        seen = {key: pack(library.value(layer(library.leaf(given))))}
        for part, state in layer.state_dict().items():
            seen[f"state.{part}"] = pack(library.value(state))
        flags = [bool(getattr(part, "training", False)) for part in layer.modules()]
        record.log.append({**seen, "state.training": pack(flags)})


def _observe_test(trial: Trial, _: Loss | None, record: _Record) -> None:
    """A test asserts by itself; all there is to see is whether it raises."""
    record.phase = "the test"
    trial.call({})


# ----- What else can be seen -----


def _mutated(
    before: Mapping[str, Array], held: Mapping[str, NumericArray], cotangent: NumericArray
) -> dict[str, Array]:
    """Which of the inputs hold something else now."""
    after = {name: pack(array) for name, array in {**held, "cotangent": cotangent}.items()}
    return {name: array for name, array in after.items() if array != before[name]}


def _shared(
    gradients: Mapping[str, NumericArray | None], others: Mapping[str, NumericArray]
) -> list[tuple[str, str]]:
    """Pairs of a gradient and another array whose memory overlaps."""
    known = [(f"{name}.grad", array) for name, array in gradients.items() if array is not None]
    pairs = [*combinations(known, 2), *product(known, others.items())]
    return sorted((one, other) for (one, a), (other, b) in pairs if np.shares_memory(a, b))


def _global_generator() -> object:
    """Something that changes with every draw from NumPy's global generator."""
    state = mtrand.get_bit_generator().state["state"]
    return state.get("state", state.get("pos"))  # PCG64 counts in one number, Mersenne in a place


def _pack_step(step: Any) -> TraceStep:
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
    """The line of the text at `path` that was being executed when the exception passed through it.

    The text starts at `line` of that file.
    """
    lines, found, traceback = source.splitlines(), "", error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == path:
            index = traceback.tb_lineno - line
            found = lines[index].strip() if 0 <= index < len(lines) else found
        traceback = traceback.tb_next
    return found
