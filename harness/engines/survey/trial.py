"""Trials of a way to call an engine: how many probes of one op come out right with it.

Nothing is required to be right: an engine may have a bug. Gradients that are right count most, then
those that scale with the cotangent, then any that are not zero, then a backward pass that ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from harness.core.run import NumericArray, message_of
from harness.engines.adapter.arrays import Adapter, Tensor
from harness.engines.engine import Dialect
from harness.engines.library import names_in, substituted
from harness.engines.survey.attempts import Attempts, Shape, same
from harness.engines.survey.forms import BackwardForm
from harness.engines.survey.leaves import computes, gradients, guarded

Slopes = tuple[Any, ...]
"""The derivatives of a probe with respect to `t`, and to `u` if the probe uses it."""

ONE_OP: dict[str, Callable[[Any, Any], Slopes]] = {
    "t * t": lambda x, _: (2 * x,),
    "t + t": lambda x, _: (2 + 0 * x,),
    "t * u": lambda x, y: (y, x),
    "t + u": lambda x, y: (1 + 0 * x, 1 + 0 * y),
    "t - u": lambda x, y: (1 + 0 * x, 0 * y - 1),
    "t - -t": lambda x, _: (2 + 0 * x,),
    "-t": lambda x, _: (0 * x - 1,),
    "t / u": lambda x, y: (1 / y, -x / y**2),
    "t * 3.0": lambda x, _: (3 + 0 * x,),
    "t + 3.0": lambda x, _: (1 + 0 * x,),
    "t ** 2": lambda x, _: (2 * x,),
    "t ** u": lambda x, y: (y * x ** (y - 1), x**y * np.log(x)),
    "(t + 3.0) * u": lambda x, y: (y, x + 3),
    "t.exp()": lambda x, _: (np.exp(x),),
    "t.tanh()": lambda x, _: (1 - np.tanh(x) ** 2,),
    "t.relu()": lambda x, _: ((x > 0) + 0 * x,),
}
"""Probes of two leaves of one shape, and their derivatives.

They are computed as the harness's probes are: where an engine has no operator, by its method or
function.
"""

_DEEP = "(t + 3.0) * u"
"""A probe in which the gradient of `u` is another result: wrong if that was not evaluated."""

_POSITIVE = {"t ** u"}
"""The probes whose leaves are positive."""

_ENOUGH = 3
"""A backward pass that fails on this many probes is not tried on others."""

_OUTPUTS = 2
"""If at least this many outputs were read, and none rightly, no gradient counts: it was computed
from other numbers, as in a lazy engine that was not asked to evaluate."""

_CALLED = 2
_REFUSALS = (TypeError, AttributeError, AssertionError)
"""What an engine may raise if it is given a tensor for an array, or no scalar."""

_LONGEST = 120
"""The length at which the text of an exception is cut, in characters."""


class Score(NamedTuple):
    """The number of probes with each outcome, the best first, so that scores can be compared."""

    right: int = 0
    scaled: int = 0
    """Wrong, but twice as large for twice the cotangent."""
    filled: int = 0
    """Neither, but not all zero."""
    ended: int = 0
    """Those whose backward pass ended, and left something that can be read."""
    called: int = 0
    """2 if a backward pass ended, or failed in the engine's own code; 1 if the engine may not have
    accepted the arguments; 0 if its code did not run."""


class Trial(msgspec.Struct, frozen=True):
    """Expressions for the value, the backward pass and the gradient, and how the probes ended."""

    score: Score
    outcomes: dict[str, str]
    """By probe that the engine can compute: right, scaled, filled, empty, unreadable, or an
    exception."""
    value: str = ""
    backward: str = ""
    gradient: str = ""

    @property
    def complete(self) -> bool:
        """Whether every probe that the engine can compute came out right."""
        return 0 < self.score.right == len(self.outcomes)

    @property
    def convincing(self) -> bool:
        """Whether at least half of them did."""
        return self.score.right > 0 and 2 * self.score.right >= len(self.outcomes)


Reading = tuple[str, str, str]
"""Expressions for the value, the backward pass and the gradient."""
Gradients = dict[Reading, list[Any]]
"""The gradients of a probe's leaves, by how they are read."""


@dataclass(frozen=True)
class Bench:
    """A leaf of an engine, and the probes that are tried on it."""

    attempts: Attempts
    dialect: Dialect
    module: ModuleType
    leaf: str
    readings: Sequence[str]
    """Expressions that read a leaf's data."""
    shape: Shape
    numbers: bool = False
    """Whether a leaf holds one number, and the backward pass takes no cotangent."""

    def trial(self, form: BackwardForm) -> Trial:
        """Try a backward pass on each probe; the gradient is read as most probes allow."""
        outcomes: dict[str, dict[Reading, str]] = {}
        failures: dict[str, str] = {}
        computed, unevaluated = defaultdict[str, list[bool]](list), list[Reading]()
        called = 0
        for probe in ONE_OP:
            if len(failures) >= _ENOUGH and not outcomes and called < _CALLED:
                break
            weights = self._weights(probe)
            try:
                found = self._gradients(form, probe, weights, computed)
            except _NotComputed:
                continue
            except BaseException as error:
                failures[probe] = _in_words(error)
                raiser = self.attempts.note(form.expression, error)
                refuses = raiser == "statement" or isinstance(error, _REFUSALS)
                called = max(called, 0 if raiser is None else 1 if refuses else _CALLED)
                continue
            called = _CALLED
            expected = [s * weights for s in ONE_OP[probe](*_operands(self.shape, probe))]
            outcomes[probe] = {
                reading: "right" if _all_same(items, expected) else _filled(items)
                for reading, items in found.items()
            }
            if probe == _DEEP:
                unevaluated = [
                    reading
                    for reading, items in found.items()
                    if computes(reading[0])
                    and outcomes.get("t * u", {}).get(reading) == "right"
                    and not same(items[1], expected[1])
                ]
            if "right" not in outcomes[probe].values():
                self._mark_scaled(form, probe, found, outcomes[probe])
        never = {v for v, right in computed.items() if len(right) >= _OUTPUTS and not any(right)}
        for outcome in outcomes.values():
            useless = [r for r in outcome if r[0] in never or r in unevaluated]
            outcome |= dict.fromkeys(useless, "unreadable")
        return _best_reading(outcomes, failures, self._usual(form), called)

    def _usual(self, form: BackwardForm) -> Reading:
        """How the gradient is read if no probe shows it: by its name."""
        value, gradient = self.readings[0], ""
        if form.gradients != "returned":
            leaf = self._leaf(_inputs(self.shape, 0))
            gradient = next(iter(gradients(self.dialect.gradient, leaf, value, leaf)), "t.grad")
        return value, form.expression, gradient

    def _mark_scaled(
        self, form: BackwardForm, probe: str, first: Gradients, outcomes: dict[Reading, str]
    ) -> None:
        if self.numbers or "filled" not in outcomes.values():
            return
        try:
            second = self._gradients(form, probe, 2 * self._weights(probe), defaultdict(list))
        except BaseException:
            return
        for reading in [reading for reading, outcome in outcomes.items() if outcome == "filled"]:
            doubled = [2 * item for item in _arrays(first[reading])]
            if _all_same(_arrays(second.get(reading, [])), doubled):
                outcomes[reading] = "scaled"

    @cached_property
    def _adapter(self) -> Adapter:
        return Adapter(replace(self.dialect, leaf=self.leaf), self.module)

    def _weights(self, probe: str) -> NumericArray:
        return np.ones(()) if self.numbers else _inputs(self.shape, sum(map(ord, probe)) + 2)

    def _leaf(self, x: NumericArray) -> Any:
        return self.attempts.value(self.leaf, data=float(x) if self.numbers else x.copy())

    def _gradients(
        self,
        form: BackwardForm,
        probe: str,
        weights: NumericArray,
        computed: dict[str, list[bool]],
    ) -> Gradients:
        """The gradients after one backward pass. Raises _NotComputed without an output.

        Whether the output has the right data is noted in `computed`, by the expression that reads
        it: before the backward pass, or from another output if the expression may compute it.
        """
        names = ("t", "u") if "u" in names_in(probe) else ("t",)
        both = dict(zip("tu", _operands(self.shape, probe), strict=True))
        operands = [both[name] for name in names]
        leaves, output = self._output(probe, operands)
        expected = None if "()" in probe else self.attempts.value(probe, **both)
        readings = self.readings if expected is not None else ()
        for value in readings:
            if not computes(value):
                computed[value].append(same(self.attempts.value(value, t=output), expected))
        arguments = {"t": output, "cotangent": weights.copy(), "leaves": leaves}
        result = self.attempts.evaluate(form.expression, **arguments)
        read = {"stored": self._stored, "returned": self._returned, "moved": self._moved}
        found = dict(read[form.gradients](form.expression, leaves, result, operands))
        for value in filter(computes, readings):
            other = self._output(probe, operands)[1]
            computed[value].append(same(self.attempts.value(value, t=other), expected))
        return found

    def _output(self, probe: str, operands: Sequence[NumericArray]) -> tuple[list[Any], Any]:
        """New leaves, and what a probe computes of them. Raises _NotComputed if it fails."""
        leaves = list(map(self._leaf, operands))
        tensors = [Tensor(self._adapter, leaf) for leaf in leaves]
        output = self.attempts.value(probe, **dict(zip("tu", tensors, strict=False)))
        output = self._adapter.unwrap(output)
        if output is None or any(leaf is None for leaf in leaves):
            raise _NotComputed
        return leaves, output

    def _stored(
        self, backward: str, leaves: list[Any], _: Any, operands: Sequence[NumericArray]
    ) -> Iterator[tuple[Reading, list[Any]]]:
        fresh = self._leaf(operands[0])
        for value in self.readings:
            for leaf in leaves:  # a method that evaluates may also clear the gradient
                self._read(value, leaf)
            for gradient in gradients(self.dialect.gradient, leaves[0], value, fresh):
                read = gradient if self.dialect.gradient == gradient else guarded(gradient)
                yield (value, backward, read), [self._read(read, leaf) for leaf in leaves]

    def _read(self, expression: str, leaf: Any) -> Any:
        """A gradient or the data; an object that is not a number if it cannot be read."""
        try:
            return self.attempts.evaluate(expression, t=leaf)
        except BaseException as error:
            self.attempts.note(expression, error)
            return error

    def _returned(
        self, backward: str, leaves: list[Any], result: Any, _: Any
    ) -> Iterator[tuple[Reading, list[Any]]]:
        returned = result if isinstance(result, list | tuple) else []
        if len(returned) != len(leaves) or all(item is None for item in returned):
            raise TypeError("it does not return one gradient for each leaf")
        yield (self.readings[0], backward, ""), list(returned)
        for value in self.readings:
            reading = f"[{substituted(value, 't', 'g')} for g in {backward}]"
            yield (value, reading, ""), [self.attempts.value(value, t=item) for item in returned]

    def _moved(
        self, backward: str, leaves: list[Any], _: Any, operands: Sequence[NumericArray]
    ) -> Iterator[tuple[Reading, list[Any]]]:
        read = self.dialect.gradient
        items = [
            self.attempts.value(read, t=leaf, before=x)
            for leaf, x in zip(leaves, operands, strict=True)
        ]
        yield (self.readings[0], backward, read), items


class _NotComputed(Exception):
    """The engine does not have a probe's op."""


def trial_of_pull(attempts: Attempts, pull: str) -> Trial:
    """Try an expression for a VJP on the probes that arrays can compute."""
    outcomes: dict[str, dict[Reading, str]] = {}
    failures: dict[str, str] = {}
    for probe, slopes in ONE_OP.items():
        x, y = _operands((3,), probe)
        weights = _inputs((3,), 2)
        if attempts.value(probe, t=x, u=y) is None:
            continue

        def function(t: Any, probe: str = probe, y: NumericArray = y) -> Any:
            return attempts.evaluate(probe, t=t, u=y)

        try:
            output, vjp = attempts.evaluate(pull, function=function, data=x.copy())
            first, second = vjp(weights), vjp(2 * weights)
        except BaseException as error:
            attempts.note(pull, error)
            failures[probe] = _in_words(error)
            if len(failures) >= _ENOUGH and not outcomes:
                break
            continue
        outcome = _filled([first])
        if same(first, slopes(x, y)[0] * weights):
            outcome = "right" if same(output, function(x)) else outcome
        elif outcome == "filled" and same(second, 2 * np.asarray(first)):
            outcome = "scaled"
        outcomes[probe] = {("t", "t", "t"): outcome}
    return _best_reading(outcomes, failures, ("t", "t", "t"))


def _best_reading(
    outcomes: dict[str, dict[Reading, str]],
    failures: dict[str, str],
    usual: Reading,
    called: int = 0,
) -> Trial:
    """The trial with the reading that has the best score; of several, the first."""
    readings = dict.fromkeys(r for found in outcomes.values() for r in found)
    trials = []
    for reading in readings:
        ended = {probe: found.get(reading, "empty") for probe, found in outcomes.items()}
        count = list(ended.values()).count
        readable = len(ended) - count("unreadable")
        read = _CALLED if readable else called
        score = Score(count("right"), count("scaled"), count("filled"), readable, read)
        trials.append(Trial(score, ended | failures, *reading))
    nothing = Trial(Score(called=called), failures, *usual)
    return max(trials, key=lambda trial: trial.score, default=nothing)


# ----- Inputs and outcomes -----


def _inputs(shape: Shape, seed: int) -> NumericArray:
    """Reproducible numbers whose absolute values are between 0.5 and 2; a single one is positive,
    so that no slope is zero."""
    rng = np.random.default_rng((21, seed))
    signs = rng.choice([-1, 1], shape) if shape else 1
    return np.asarray(rng.uniform(0.5, 2, shape) * signs)


def _operands(shape: Shape, probe: str) -> tuple[NumericArray, NumericArray]:
    seed = sum(map(ord, probe))
    x, y = _inputs(shape, seed), _inputs(shape, seed + 1)
    return (abs(x), abs(y)) if probe in _POSITIVE else (x, y)


def _all_same(items: Sequence[Any], expected: Sequence[Any]) -> bool:
    return len(items) == len(expected) and all(map(same, items, expected))


def _filled(items: Sequence[Any]) -> str:
    if any(isinstance(item, bool) for item in items):  # a flag, such as `requires_grad`
        return "unreadable"
    try:
        arrays = _arrays(items)
    except Exception:  # a foreign object may fail in any way
        return "unreadable"
    if any(array.size == 0 for array in arrays):
        return "unreadable"
    return "filled" if any(np.any(array) for array in arrays) else "empty"


def _in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {message_of(error)}".removesuffix(": ")[:_LONGEST]


def _arrays(items: Sequence[Any]) -> list[NumericArray]:
    """Gradients as arrays, 0 for a missing one."""
    return [np.asarray(0 if item is None else item, float) for item in items]
