"""The search for expressions that make a tensor, read it, differentiate it and read the gradient.

Names and signatures make candidates. Each is tried on probes of one op, in a fork of its own; the
one with the best score is taken, even if nothing comes out right, since the engine may have a bug.
Only a candidate with which everything comes out right ends the search early.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from types import ModuleType
from typing import Any, Literal

import numpy as np

from harness.core.run import NumericArray
from harness.engines.adapter import open_library
from harness.engines.calling import attribute_of
from harness.engines.engine import Dialect
from harness.engines.survey.attempts import Attempts, Shape, same, sample
from harness.engines.survey.forms import (
    ARRAY_ATTRIBUTES,
    BackwardForm,
    backward_forms,
    backward_methods,
    backward_of_numbers,
    computes_on_reading,
    named_backward,
    pulls,
    seeded,
)
from harness.engines.survey.leaves import filled, leaves, switched_on, values
from harness.engines.survey.trial import Bench, Score, Trial, trial_of_pull

Readings = dict[str, list[str]]
"""Expressions that read the data of a leaf, by the expression that makes it."""

DialectKind = Literal["arrays", "scalars", "functional"]

SHAPES: tuple[Shape, ...] = ((2, 3), (2, 3, 4), (3,), (2, 3, 4, 5))
"""The shapes of leaves, the first that the engine stores: some engines accept only one rank, and
some add an axis."""

_MORE = 32
"""How many forms are tried after one with which most probes, but not all, come out right."""


@dataclass(frozen=True)
class Candidate:
    """A way to call an engine, and how the probes ended with it."""

    dialect: Dialect
    trial: Trial
    shape: Shape
    likely: bool = True
    """Whether what the engine stores suggests this kind: arrays or numbers."""

    @property
    def accepted(self) -> bool:
        """Whether no other class of the engine needs to be tried."""
        return self.likely and self.trial.convincing

    @property
    def works(self) -> bool:
        """Whether the engine accepts the call."""
        return self.trial.score.called > 0

    @property
    def rank(self) -> tuple[object, ...]:
        """Of two candidates, the one with the greater rank is taken."""
        return (self.trial.score.right > 0, self.likely, self.trial.score)


class Search:
    """The search for the expressions of one class, or of one function that differentiates."""

    def __init__(
        self,
        attempts: Attempts,
        dialect: Dialect,
        target: tuple[str, Any],
        module: ModuleType,
        functions: Iterable[str],
    ) -> None:
        """`target` is a name and what it names; `functions` are modules of functions."""
        self.attempts, self.dialect, self.module = attempts, dialect, module
        self.name, self.target = target
        self.functions = list(functions)
        self.closest = dialect
        """The dialect with what was found, even if no backward pass was."""

    def find(self, modules: dict[str, Any]) -> Candidate | None:
        """Return the candidate with the greatest rank, or None if there is none."""
        forms = leaves(self.dialect.leaf, self.name, self.target, modules)
        kind, found = self.dialect.kind, list[Candidate | None]()
        arrays = None
        if kind == "functional" or not (kind or inspect.isclass(self.target)):
            found.append(self._best("functional", ()))
        if kind in (None, "arrays"):
            accepted = [shape for shape in SHAPES if len(shape) not in self.dialect.refused_ranks]
            shapes = ((shape, self._read(forms, sample(shape))) for shape in accepted)
            shape, readable = next(((s, read) for s, read in shapes if read), (accepted[0], {}))
            arrays = self._best("arrays", self._with_switches(readable, shape), shape)
        if arrays:
            arrays = replace(arrays, likely=bool(kind) or self._is_of_arrays(arrays))
            found.append(arrays)
        if kind in (None, "scalars") and not (arrays and arrays.likely and arrays.works):
            likely = not any(hasattr(self.target, name) for name in ARRAY_ATTRIBUTES)
            numbers = self._best("scalars", self._read(forms, 3.0).items())
            found.append(numbers and replace(numbers, likely=bool(kind) or likely))
        candidates = [candidate for candidate in found if candidate]
        return max(candidates, key=lambda candidate: candidate.rank, default=self._declared())

    def _declared(self) -> Candidate | None:
        """What the settings declare, if it suffices, although nothing works with it."""
        if not (self.dialect.leaf and self.dialect.backward):
            return None
        of_arrays = any(hasattr(self.target, name) for name in ARRAY_ATTRIBUTES)
        kind: DialectKind = self.dialect.kind or ("arrays" if of_arrays else "scalars")
        value, gradient = self.dialect.value or "t.data", self.dialect.gradient or "t.grad"
        nothing = Trial(Score(), {}, value, self.dialect.backward, gradient)
        return Candidate(self._dialect(self.dialect.leaf, nothing, kind), nothing, SHAPES[0])

    # ----- Trials -----

    def _best(
        self, kind: DialectKind, readable: Iterable[tuple[str, list[str]]], shape: Shape = ()
    ) -> Candidate | None:
        """The best of all backward passes for each leaf; of several, the first."""
        best: Candidate | None = None
        more = _MORE
        for candidate in self._candidates(kind, readable, shape):
            if best is None or candidate.rank > best.rank:
                best = candidate
            more -= best.trial.convincing
            if best.trial.complete or not more:
                break
        return best

    def _candidates(
        self, kind: DialectKind, readable: Iterable[tuple[str, list[str]]], shape: Shape
    ) -> Iterator[Candidate]:
        if kind == "functional":
            for pull in pulls(self.name):
                work = partial(trial_of_pull, self.attempts, pull)
                trial = self._tried(pull, work)
                if trial and trial.score.called > 1:
                    dialect = replace(self._dialect("data", trial, kind), pull=pull)
                    yield Candidate(dialect, trial, shape)
            return
        numbers = kind == "scalars"
        for leaf, readings in readable:
            if not self.closest.value:
                self.closest = replace(self.dialect, leaf=leaf, value=readings[0])
            bench = Bench(self.attempts, self.dialect, self.module, leaf, readings, shape, numbers)
            for form in self._forms(leaf, readings, kind, shape):
                if trial := self._tried(form.expression, partial(bench.trial, form)):
                    yield Candidate(self._dialect(leaf, trial, kind), trial, shape)

    def _forms(
        self, leaf: str, readings: list[str], kind: DialectKind, shape: Shape
    ) -> Iterator[BackwardForm]:
        target = self._receiver(leaf, 3.0 if kind == "scalars" else sample(shape))
        find = backward_of_numbers if kind == "scalars" else partial(backward_forms, leaf=leaf)
        yield from find(self.dialect, target=target, modules=self.functions, readings=readings)
        if kind != "scalars":
            return
        if not self.dialect.backward and computes_on_reading(target, self.functions):
            seeds = self._apart(leaf, lambda: seeded(self.attempts.value(leaf, data=3.0))) or []
            yield from map(BackwardForm, seeds)

    def _receiver(self, leaf: str, x: Any) -> Any:
        """The class that runs the backward pass: that of results, if leaves have no such method."""
        if self.dialect.backward or named_backward(self.target):
            return self.target
        module, *names = self._apart(leaf, partial(self._class_of_results, leaf, x)) or [""]
        found = reduce(attribute_of, names, sys.modules.get(module))
        return found if isinstance(found, type) and backward_methods(found) else self.target

    def _class_of_results(self, leaf: str, x: Any) -> list[str]:
        t = self.attempts.value(leaf, data=x if isinstance(x, float) else x.copy())
        results = (self.attempts.value(op, t=t) for op in ("t + t", "t * t"))
        kind = next((type(result) for result in results if result is not None), type(None))
        return [kind.__module__, *kind.__qualname__.split(".")]

    def _tried(self, what: str, work: Callable[[], Trial]) -> Trial | None:
        return self.attempts.apart(what, work, Trial) if self.attempts.may_go_on else None

    def _dialect(self, leaf: str, trial: Trial, kind: DialectKind) -> Dialect:
        return replace(
            self.dialect,
            leaf=leaf,
            value=trial.value,
            backward=trial.backward,
            gradient=trial.gradient,
            kind=kind,
        )

    # ----- Leaves -----

    def _with_switches(self, readable: Readings, shape: Shape) -> Iterator[tuple[str, list[str]]]:
        """Yield each leaf with how it is read, then leaves that are asked for their gradients."""
        yield from readable.items()
        for leaf in list(readable)[:1]:
            if not self.dialect.leaf:
                x = sample(shape)
                switches = self._apart(leaf, partial(self._switches, leaf, x)) or []
                yield from self._read(switches, x).items()

    def _switches(self, leaf: str, x: NumericArray) -> Iterator[str]:
        return switched_on(leaf, self.attempts.value(leaf, data=x.copy()))

    def _read(self, forms: list[str], x: Any) -> Readings:
        """The forms that make a leaf, and how its data is read; all in one fork if that works."""
        readings = self.attempts.apart(
            "the leaves", lambda: {leaf: self._readings(leaf, x) for leaf in forms}, Readings
        )
        if readings is None:
            each = ((leaf, self._apart(leaf, partial(self._readings, leaf, x))) for leaf in forms)
            readings = {leaf: found or [] for leaf, found in each}
        return {leaf: found for leaf, found in readings.items() if found}

    def _readings(self, leaf: str, x: Any) -> list[str]:
        """The expressions that read `x` from the leaf; a declared one even if it does not."""
        t = self.attempts.value(leaf, data=x if isinstance(x, float) else x.copy())
        if t is None or not self._is_of_target(t):
            return []
        forms = values(self.dialect.value, t)
        read = [form for form in forms if same(self.attempts.value(form, t=t), np.asarray(x))]
        return filled(read) or (forms if self.dialect.value else [])

    def _is_of_target(self, t: Any) -> bool:
        """Whether a leaf belongs to the class; a factory may make tensors of another one."""
        if self.dialect.leaf or not inspect.isclass(self.target):
            return True
        return bool(set(type(t).__mro__) & set(self.target.__mro__) - {object})

    def _apart(self, what: str, work: Callable[[], Any]) -> list[str] | None:
        return self.attempts.apart(what, lambda: list(work() or []), list[str])

    # ----- Arrays or numbers -----

    def _is_of_arrays(self, found: Candidate) -> bool:
        """Whether shapes are handled; an engine of numbers may store an array by accident."""
        if any(hasattr(self.target, name) for name in ARRAY_ATTRIBUTES):
            return True
        leaf = found.dialect.leaf
        if self._apart(leaf, partial(self._makes_arrays, leaf)):
            return True
        shapes = ((3,), (1, 3)) if found.trial.convincing else ()
        return any(self._apart("a + b", partial(self._reduces, found.dialect, s)) for s in shapes)

    def _makes_arrays(self, leaf: str) -> list[str]:
        """The attributes in which a leaf that is made from a number has an array."""
        t = self.attempts.value(leaf, data=3.0)
        own = vars(t) if hasattr(t, "__dict__") else {}
        return [name for name, value in own.items() if isinstance(value, np.ndarray)]

    def _reduces(self, dialect: Dialect, shape: Shape) -> list[str]:
        library = open_library(dialect, self.module)
        a, b = library.leaf(sample(shape)), library.leaf(sample((4, 3)))
        library.backward(a + b, np.ones((4, 3)))
        gradient = library.gradient(a)
        return ["a + b"] if gradient is not None and gradient.shape == shape else []
