"""A trial: a probe bound to a library, in the process that runs both, and what is observed of it.

The same code observes the engine under test, its clean original and the independent libraries, so
that a difference between two runs is never a difference between two observers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from harness.engine import Dialect
from harness.leaves import cotangent_for, draw
from harness.probe import Probe
from harness.run import Array, Failure, NumericArray, Run, pack
from harness.words import Loss


class Library:
    """A loaded module, spoken to through its dialect."""

    def __init__(self, dialect: Dialect, module: ModuleType) -> None:
        self.module = module
        self._names = {**vars(module), module.__name__: module}
        self._code = {
            what: compile(getattr(dialect, what), f"<{what} of {dialect.module}>", "eval")
            for what in ("leaf", "value", "gradient", "backward")
        }

    def leaf(self, data: NumericArray) -> Any:
        """A tensor that holds a copy of `data` and asks for a gradient."""
        return self._say("leaf", data=data.copy())

    def value(self, t: Any) -> NumericArray:
        """What a tensor holds; numbers and arrays are taken as they are."""
        plain = isinstance(t, np.ndarray | np.generic | int | float | list)
        return np.asarray(t if plain else self._say("value", t=t))

    def gradient(self, t: Any) -> NumericArray | None:
        """A leaf's gradient, None where the library gives none."""
        gradient = self._say("gradient", t=t)
        return None if gradient is None else np.asarray(gradient)

    def backward(self, t: Any, cotangent: NumericArray) -> None:
        """Run the library's backward pass from `t`."""
        self._say("backward", t=t, cotangent=cotangent)

    def _say(self, what: str, **given: Any) -> Any:
        return eval(self._code[what], self._names, given)  # noqa: S307  the dialect is code by design


class Trial:
    """One probe on one library, ready to be run as often as a diagnostic likes."""

    def __init__(self, library: Library, probe: Probe) -> None:
        self.library, self.probe = library, probe
        names: dict[str, Any] = {"__name__": "probes"}
        code = compile("\n" * (probe.line - 1) + probe.source, probe.path, "exec")
        exec(code, names)  # noqa: S102  a probe is code by design
        self.function: Callable[..., Any] = names[probe.function]

    def forward(self, values: Mapping[str, NumericArray]) -> tuple[dict[str, Any], Any]:
        """The leaves as tensors, and the probe's output for them."""
        leaves = {name: self.library.leaf(np.asarray(data)) for name, data in values.items()}
        return leaves, self.function(**leaves)

    def output(self, values: Mapping[str, NumericArray]) -> NumericArray:
        """The value of the probe's output, no gradient asked."""
        return self.library.value(self.forward(values)[1])


def observe(trial: Trial, loss: Loss | None) -> Run:
    """Run the trial once and record what can be seen, however it ends."""
    record = _Record()
    start = time.perf_counter()
    failure = None
    try:
        if loss is None:
            _observe_steps(trial, record)
        else:
            _observe_gradients(trial, loss, record)
    except BaseException as error:  # whatever a broken engine raises is an observation
        failure = Failure(
            record.phase, type(error).__name__, _message(error), _probe_line(trial.probe, error)
        )
    return Run(
        probe=trial.probe.name,
        loss=loss,
        leaves=record.leaves,
        output=record.output,
        cotangent=record.cotangent,
        gradients=record.gradients,
        log=record.log,
        failure=failure,
        seconds=time.perf_counter() - start,
    )


class _Record:
    """What has been seen so far: a run that is still going on."""

    def __init__(self) -> None:
        self.phase = "the leaves"
        self.leaves: dict[str, Array] = {}
        self.output: Array | None = None
        self.cotangent: Array | None = None
        self.gradients: dict[str, Array | None] = {}
        self.log: list[dict[str, Array]] = []


def _observe_gradients(trial: Trial, loss: Loss, record: _Record) -> None:
    values = draw(trial.probe)
    record.leaves = {name: pack(data) for name, data in values.items()}
    record.phase = "the forward pass"
    leaves, output = trial.forward(values)
    value = trial.library.value(output)
    record.output = pack(value)
    cotangent = cotangent_for(trial.probe.name, loss, value.shape).astype(value.dtype)
    record.cotangent = pack(cotangent)
    record.phase = "the backward pass"
    trial.library.backward(output, cotangent)
    for name, leaf in leaves.items():
        gradient = trial.library.gradient(leaf)
        record.gradients[name] = None if gradient is None else pack(gradient)


def _observe_steps(trial: Trial, record: _Record) -> None:
    values = draw(trial.probe)
    record.leaves = {name: pack(data) for name, data in values.items()}
    leaves = {name: trial.library.leaf(data) for name, data in values.items()}
    record.phase = "step 0"
    for snapshot in trial.function(trial.library.module, **leaves):
        record.log.append(
            {name: pack(trial.library.value(seen)) for name, seen in snapshot.items()}
        )
        record.phase = f"step {len(record.log)}"


def _message(error: BaseException) -> str:
    """The exception's own words on one line, bounded; an exception may fail even to say them."""
    try:
        words = " ".join(str(error).split())
    except BaseException:
        return "(its message cannot be printed)"
    return words if len(words) <= 300 else words[:299] + "…"


def _probe_line(probe: Probe, error: BaseException) -> str:
    """The line of the probe that was being executed when the exception passed through it."""
    lines, found, traceback = probe.source.splitlines(), "", error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == probe.path:
            index = traceback.tb_lineno - probe.line
            found = lines[index].strip() if 0 <= index < len(lines) else found
        traceback = traceback.tb_next
    return found
