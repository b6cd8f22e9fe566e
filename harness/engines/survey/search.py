"""The search for expressions that make a tensor, read it, differentiate it and read the gradient.

Names and signatures make candidates. Each is tried on probes of one op; the one with the best score
is taken, even if nothing comes out right, since the engine may have a bug. The search ends early at
a candidate with which most of the probes come out right.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from types import ModuleType
from typing import Any, Literal

import numpy as np

from harness.core.run import NumericArray
from harness.engines.adapter import open_library
from harness.engines.engine import Dialect
from harness.engines.survey.attempts import Attempts, Shape, same, sample
from harness.engines.survey.forms import (
    ARRAY_ATTRIBUTES,
    BackwardForm,
    backward_methods,
    from_sums,
    functions_in,
    gradients,
    pulls,
    returning,
    storing,
    values,
)
from harness.engines.survey.leaves import MOST, leaves, switched_on
from harness.engines.survey.trial import FUNCTIONS, Bench, Score, Trial, ranked, trial_of_pull

Readings = dict[str, list[str]]
"""Expressions that read the data of a leaf, by the expression that makes it."""

DialectKind = Literal["arrays", "scalars", "functional"]

_USUAL: tuple[Shape, ...] = ((2, 3), (2, 3, 4))
"""The shapes of leaves: three axes are for engines that add one to two."""

_OTHERS: tuple[Shape, ...] = ((3,), (2, 3, 4, 5))
"""Shapes for engines that accept only vectors, or only images."""

_MOST_SWITCHES = 8

_MOST_ALONE = 24
"""The number of backward passes that are tried in forks of their own."""


@dataclass(frozen=True)
class Candidate:
    """A way to call an engine, and how the probes ended with it."""

    dialect: Dialect
    trial: Trial
    shape: Shape
    likely: bool
    """Whether what the engine stores suggests this kind: arrays or numbers."""

    @property
    def accepted(self) -> bool:
        """Whether no other candidate needs to be tried."""
        return self.likely and self.trial.convincing

    @property
    def works(self) -> bool:
        """Whether a gradient comes out that depends, or may depend, on the cotangent as it must."""
        score = self.trial.score
        weighted = not self.dialect.backward.startswith("t.")
        return score.right + score.scaled > 0 or (weighted and score.called > 1)

    @property
    def rank(self) -> tuple[object, ...]:
        """Of two candidates, the one with the greater rank is taken."""
        right = self.trial.score.right > 0
        return (right, self.likely, self.trial.score)


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
        missing = [name for name, op in FUNCTIONS.items() if not hasattr(self.target, op.operator)]
        modules = (dialect.module, *dialect.functions)
        self._ops = [f"{name}(t, u)" for name in functions_in(modules, *missing)]
        self._ops += [f"t.{name}(u)" for name in missing if hasattr(self.target, name)]
        self._readable: dict[Shape, Readings] = {}
        self._switched: dict[Shape, Readings] = {}

    def find(self, modules: dict[str, Any]) -> Candidate | None:
        """Return the candidate with the greatest rank, or None if there is none.

        The first with which most of the probes come out right ends the search.
        """
        self._forms = leaves(self.dialect.leaf, self.name, self.target, modules)[:MOST]
        found: list[Candidate] = []
        for candidate in self._candidates():
            found.append(candidate)
            if candidate.accepted:
                break
        accepted = [candidate for candidate in found if candidate.accepted]
        best = max(accepted or found, key=lambda candidate: candidate.rank, default=None)
        return best or self._declared()

    def _candidates(self) -> Iterator[Candidate]:
        if not inspect.isclass(self.target):
            yield from self._functional()
        for shapes in (_USUAL, _OTHERS):
            ran = False
            for shape in shapes:
                for candidate in self._arrays(shape):
                    yield candidate
                    ran |= candidate.likely and candidate.trial.score.called > 1
                if self._readable.get(shape):
                    break
            if not ran:
                yield from self._numbers()
            if any(self._readable.get(shape) for shape in shapes):
                return

    def _declared(self) -> Candidate | None:
        """What the settings declare, if it suffices, although nothing works with it."""
        stated = self.dialect
        if not (stated.leaf and stated.backward):
            return None
        trial = Trial(Score(), {}, stated.value or "t.data", stated.backward)
        kind: DialectKind = "arrays" if self._has_shapes() else "scalars"
        return self._candidate(stated.leaf, trial, kind, likely=True)

    def _has_shapes(self) -> bool:
        return any(hasattr(self.target, name) for name in ARRAY_ATTRIBUTES)

    # ----- Arrays -----

    def _arrays(self, shape: Shape) -> Iterator[Candidate]:
        """Yield the best backward pass of each kind for each leaf.

        All for a leaf are tried in one fork. If none is right, they are tried each in its own: one
        that fails may spoil the next.
        """
        some_right = False
        for alone, kind in product((False, True), (storing, returning)):
            if alone and some_right:
                return
            for leaf, readings in self._leaves(shape):
                if not self.attempts.may_go_on:
                    return
                bench = Bench(self.attempts, self.dialect, leaf, readings, shape, self._ops)
                forms = kind(self.dialect, leaf, self.target, self.functions)
                trial = self._each_alone(bench, forms) if alone else self._best(bench, forms)
                if trial is None:
                    continue
                some_right |= trial.score.right > 0
                likely = self._is_of_arrays(leaf, trial)
                yield self._candidate(leaf, trial, "arrays", likely=likely, shape=shape)
                if trial.convincing and not likely:  # an engine of numbers may store an array
                    return

    def _best(self, bench: Bench, forms: Sequence[BackwardForm]) -> Trial | None:
        """The best trial of forms that are tried one after the other, then again by themselves."""
        first = self.attempts.apart(
            "the backward pass", partial(ranked, forms, bench.trial), list[tuple[int, Trial]]
        )
        return self._each_alone(bench, [forms[position] for position, _ in first or ()])

    def _each_alone(self, bench: Bench, forms: Sequence[BackwardForm]) -> Trial | None:
        trials: list[Trial] = []
        for form in forms[:_MOST_ALONE]:
            if not self.attempts.may_go_on:
                break
            trial = self.attempts.apart(form.expression, partial(bench.trial, form), Trial)
            trials += [trial] if trial and (trial.value or form.gradients == "stored") else []
            if trial and trial.complete:
                break
        return max(trials, key=lambda trial: trial.score, default=None)

    def _leaves(self, shape: Shape) -> Iterator[tuple[str, list[str]]]:
        """Yield expressions that store an array, each with those that read it from the leaf."""
        x = sample(shape)
        if shape not in self._readable:
            self._readable[shape] = self._read(self._forms, x)
        readable = self._readable[shape]
        yield from readable.items()
        for leaf, readings in islice(readable.items(), 1):
            if not self.closest.value:
                self.closest = replace(self.dialect, leaf=leaf, value=readings[0])
            if shape not in self._switched:
                switches = (
                    None
                    if self.dialect.leaf
                    else self._apart(leaf, partial(self._switches, leaf, x))
                )
                self._switched[shape] = self._read((switches or [])[:_MOST_SWITCHES], x)
            yield from self._switched[shape].items()

    def _switches(self, leaf: str, x: NumericArray) -> Iterator[str]:
        return switched_on(leaf, self.attempts.value(leaf, data=x.copy()))

    def _read(self, forms: list[str], x: NumericArray) -> Readings:
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
        if t is None:
            return []
        forms = values(self.dialect.value, t)
        read = [form for form in forms if same(self.attempts.value(form, t=t), np.asarray(x))]
        return read or (forms if self.dialect.value else [])

    # ----- Arrays or numbers -----

    def _is_of_arrays(self, leaf: str, trial: Trial) -> bool:
        """Whether shapes are handled; an engine of numbers may store an array by accident."""
        if self._has_shapes() or self._apart(leaf, partial(self._makes_arrays, leaf)):
            return True
        dialect = self._dialect(leaf, trial, "arrays")
        shapes = ((3,), (1, 3)) if trial.convincing else ()
        return any(self._apart("a + b", partial(self._reduces, dialect, s)) for s in shapes)

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

    # ----- Single numbers, and functions -----

    def _numbers(self) -> Iterator[Candidate]:
        for leaf in self._forms:
            if not self.attempts.may_go_on:
                return
            readings = self._apart(leaf, partial(self._readings, leaf, 3.0))
            if not readings:
                continue
            methods = [f"t.{method}()" for method in backward_methods(self.target)]
            backward = [self.dialect.backward] if self.dialect.backward else methods
            bench = Bench(self.attempts, self.dialect, leaf, readings, (), self._ops, numbers=True)
            if trial := self._each_alone(bench, list(map(BackwardForm, backward))):
                likely = not self._has_shapes()
                yield self._candidate(leaf, trial, "scalars", likely=likely)

    def _functional(self) -> Iterator[Candidate]:
        for pull in pulls(self.name):
            if not self.attempts.may_go_on:
                return
            trial = self.attempts.apart(
                pull, partial(trial_of_pull, self.attempts, pull), Trial | None
            )
            if trial and trial.score.called > 1:
                candidate = self._candidate("data", trial, "functional", likely=True)
                yield replace(candidate, dialect=replace(candidate.dialect, pull=pull))

    # ----- Results -----

    def differentiates_sums(self) -> bool:
        """Whether the gradient of a sum is ones, so that only the cotangent is unsupported."""
        return any(
            self._apart(backward, partial(self._is_gradient_of_sum, leaf, backward))
            for leaf in self._readable.get((2, 3), ())
            for backward in from_sums(self.target, self.functions)
        )

    def _is_gradient_of_sum(self, leaf: str, backward: str) -> list[str]:
        x = sample((2, 3))
        t = self.attempts.value(leaf, data=x.copy())
        if t is None or not self.attempts.runs(backward, t=t):
            return []
        forms = gradients(self.dialect.gradient, t, "")
        return [f for f in forms if same(self.attempts.value(f, t=t), np.ones_like(x))]

    def _apart(self, what: str, work: Callable[[], Any]) -> list[str] | None:
        return self.attempts.apart(what, lambda: list(work() or []), list[str])

    def _candidate(
        self, leaf: str, trial: Trial, kind: DialectKind, *, likely: bool, shape: Shape = (2, 3)
    ) -> Candidate:
        return Candidate(self._dialect(leaf, trial, kind), trial, shape, likely)

    def _dialect(self, leaf: str, trial: Trial, kind: DialectKind) -> Dialect:
        """The dialect with these expressions; the usual ones where no probe showed any."""
        if trial.value:
            value, gradient = trial.value, trial.gradient
        else:
            value = self.closest.value or self.dialect.value or "t.data"
            gradient = self.dialect.gradient or "t.grad"
        return replace(
            self.dialect,
            leaf=leaf,
            value=value,
            backward=trial.backward,
            gradient=gradient,
            kind=kind,
        )
