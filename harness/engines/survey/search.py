"""The search for expressions that make a tensor, read it, differentiate it and read the gradient.

An engine of arrays is tried first, then one of single numbers. Every leaf is tried with backward
passes that store gradients before any that returns them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from types import ModuleType
from typing import Any

import numpy as np

from harness.core.run import NumericArray
from harness.engines.adapter import open_library
from harness.engines.engine import Dialect
from harness.engines.library import substituted
from harness.engines.survey.attempts import Attempts, Shape, same, sample
from harness.engines.survey.forms import (
    ARRAY_ATTRIBUTES,
    STEP,
    BackwardForm,
    backward_methods,
    from_sums,
    gradients,
    guarded,
    pulls,
    returning,
    storing,
    uses,
    values,
)
from harness.engines.survey.leaves import MOST, leaves, switched_on

BackwardForms = Callable[[Dialect, str, Any, list[str]], list[BackwardForm]]
"""Backward passes of a kind, by what is declared, the leaf, the class and the modules."""
Readings = dict[str, list[str]]
"""Expressions that read the data of a leaf, by the expression that makes it."""
FormCheck = Callable[[BackwardForm], list[str]]

_USUAL: tuple[Shape, ...] = ((2, 3), (2, 3, 4))
"""The shapes of leaves: three axes are for engines that add one to two."""

_OTHERS: tuple[Shape, ...] = ((3,), (2, 3, 4, 5))
"""Shapes for engines that accept only vectors, or only images."""

_MOST_SWITCHES = 8


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
        self.shape: Shape = (2, 3)
        """The shape of the tensors with which the expressions were found."""
        self._readable: dict[Shape, Readings] = {}
        self._switched: dict[Shape, Readings] = {}

    def find(self, modules: dict[str, Any]) -> Dialect | None:
        """Return the dialect with expressions that work, or None."""
        if not inspect.isclass(self.target) and (dialect := self._functional()):
            return dialect
        self._forms = leaves(self.dialect.leaf, self.name, self.target, modules)[:MOST]
        together = partial(self._arrays, alone=False)
        alone = partial(self._arrays, alone=True)
        return (
            self._first_of(together, _USUAL)
            or (self._first_of(alone, _USUAL) if self._has_shapes() else None)
            or self._scalars()
            or self._first_of(together, _OTHERS)
            or (None if self._has_shapes() else self._first_of(alone, _USUAL))
        )

    def _first_of(
        self, search: Callable[[Shape], Dialect | None], shapes: Iterable[Shape]
    ) -> Dialect | None:
        return next(filter(None, map(search, shapes)), None)

    def _has_shapes(self) -> bool:
        return any(hasattr(self.target, name) for name in ARRAY_ATTRIBUTES)

    # ----- Arrays -----

    def _arrays(self, shape: Shape, *, alone: bool) -> Dialect | None:
        """Try all backward passes for a leaf in one fork, or `alone`, each in its own."""
        self.shape = shape
        kinds = storing, returning
        return next(filter(None, (self._with(kind, alone=alone) for kind in kinds)), None)

    def _with(self, kind: BackwardForms, *, alone: bool) -> Dialect | None:
        x, cotangent = sample(self.shape), sample(self.shape, 1)
        for leaf, readings in self._leaves(x):
            work = partial(self._differentiate, leaf, readings, x, cotangent)
            forms = kind(self.dialect, leaf, self.target, self.functions)
            for found in self._works(forms, work, alone=alone):
                dialect = self._found(leaf, *found, kind="arrays")
                if self._broadcasts(dialect):
                    return dialect
                break
        return None

    def _works(
        self, forms: list[BackwardForm], work: FormCheck, *, alone: bool
    ) -> Iterator[list[str]]:
        """Yield what `work` finds with a form in a fork of its own.

        Unless `alone`, only the first form that works in one fork after the others is tried.
        """
        if not alone:
            first = self._apart("the backward pass", partial(_first, forms, work)) or ()
            forms = [forms[int(position)] for position in first]
        for form in forms:
            if not self.attempts.may_go_on:
                return
            if found := self._apart(form.expression, partial(work, form)):
                yield found

    def _leaves(self, x: NumericArray) -> Iterator[tuple[str, list[str]]]:
        """Yield expressions that store `x`, each with those that read it from the leaf."""
        if x.shape not in self._readable:
            self._readable[x.shape] = self._read(self._forms, x)
        readable = self._readable[x.shape]
        yield from readable.items()
        for leaf, readings in islice(readable.items(), 1):
            if not self.closest.value:
                self.closest = replace(self.dialect, leaf=leaf, value=readings[0])
            if x.shape not in self._switched:
                switches = (
                    None
                    if self.dialect.leaf
                    else self._apart(leaf, partial(self._switches, leaf, x))
                )
                self._switched[x.shape] = self._read((switches or [])[:_MOST_SWITCHES], x)
            yield from self._switched[x.shape].items()

    def _switches(self, leaf: str, x: NumericArray) -> Iterator[str]:
        return switched_on(leaf, self._value(leaf, x))

    def _read(self, forms: list[str], x: NumericArray) -> Readings:
        """The forms that make a leaf, and how its data is read; all in one fork if that works."""
        readings = self.attempts.apart(
            "the leaves", lambda: {leaf: self._readings(leaf, x) for leaf in forms}, Readings
        )
        if readings is None:
            each = ((leaf, self._apart(leaf, partial(self._readings, leaf, x))) for leaf in forms)
            readings = {leaf: found or [] for leaf, found in each}
        return {leaf: found for leaf, found in readings.items() if found}

    def _value(self, leaf: str, x: NumericArray) -> Any:
        return self.attempts.value(leaf, data=x.copy())

    def _readings(self, leaf: str, x: NumericArray) -> list[str]:
        t = self._value(leaf, x)
        forms = [] if t is None else values(self.dialect.value, t)
        return [form for form in forms if same(self.attempts.value(form, t=t), x)]

    def _differentiate(
        self,
        leaf: str,
        readings: list[str],
        x: NumericArray,
        cotangent: NumericArray,
        form: BackwardForm,
    ) -> list[str]:
        """Return expressions for the data, the backward pass and the gradient; none if it fails."""
        check = {"stored": self._stored, "returned": self._returned, "moved": self._moved}
        for use, slope in uses(self.dialect, leaf, x):
            t = self._value(leaf, x)
            y = self.attempts.value(use, t=t)
            if y is None:
                continue
            arguments = {"t": y, "cotangent": cotangent.copy(), "leaves": [t, t]}
            expected = slope * cotangent
            if found := check[form.gradients](form.expression, arguments, t, readings, expected, x):
                return found
        return []

    def _stored(
        self, backward: str, arguments: Any, t: Any, readings: list[str], expected: Any, _: Any
    ) -> list[str]:
        if not self.attempts.runs(backward, **arguments):
            return []
        for value in readings:
            for gradient in gradients(self.dialect.gradient, t, value):
                if same(self.attempts.value(gradient, t=t), expected):
                    return [value, backward, guarded(gradient)]
        return []

    def _returned(
        self, backward: str, arguments: Any, _: Any, readings: list[str], expected: Any, __: Any
    ) -> list[str]:
        items = self.attempts.value(backward, **arguments)
        if not isinstance(items, list | tuple) or len(items) != 2:
            return []
        if all(same(item, expected) for item in items):
            return [readings[0], backward, ""]
        for value in readings:
            if all(same(self.attempts.value(value, t=item), expected) for item in items):
                reading = substituted(value, "t", "g")
                return [value, f"[{reading} for g in {backward}]", ""]
        return []

    def _moved(
        self,
        backward: str,
        arguments: Any,
        t: Any,
        readings: list[str],
        expected: Any,
        x: NumericArray,
    ) -> list[str]:
        if not self.attempts.runs(backward, **arguments | {"leaves": [t]}):
            return []
        for value in readings:
            gradient = self.dialect.gradient or f"(before - {value}) / {STEP}"
            if same(self.attempts.value(gradient, t=t, before=x), expected):
                return [value, backward, gradient]
        return []

    def _broadcasts(self, dialect: Dialect) -> bool:
        """Whether shapes are handled; a scalar engine may store an array without knowing them."""
        if self._has_shapes():
            return True
        shapes = ((3,), (1, 3))
        return any(self._apart("a + b", partial(self._reduces, dialect, s)) for s in shapes)

    def _reduces(self, dialect: Dialect, shape: Shape) -> list[str]:
        library = open_library(dialect, self.module)
        a, b = library.leaf(sample(shape)), library.leaf(sample((4, 3)))
        library.backward(a + b, np.ones((4, 3)))
        gradient = library.gradient(a)
        return ["a + b"] if gradient is not None and gradient.shape == shape else []

    # ----- Single numbers, and functions -----

    def _scalars(self) -> Dialect | None:
        for leaf in self._forms:
            if not self.attempts.may_go_on:
                return None
            for method in backward_methods(self.target):
                backward = self.dialect.backward or f"t.{method}()"
                found = self._apart(backward, partial(self._slope, leaf, backward))
                if found:
                    return self._found(leaf, *found, kind="scalars")
        return None

    def _slope(self, leaf: str, backward: str) -> list[str]:
        """Return expressions for the value, the backward pass and the gradient of a number."""
        a, b = (self.attempts.value(leaf, data=number) for number in (3.0, -2.0))
        if a is None or b is None:
            return []
        readings = [
            value
            for value in values(self.dialect.value, a)
            if same(self.attempts.value(value, t=a), np.array(3.0))
        ]
        y = self.attempts.value("t * u + t * t", t=a, u=b)
        if y is None or not readings or not self.attempts.runs(backward, t=y):
            return []
        for value in readings:
            for gradient in gradients(self.dialect.gradient, a, value):
                if same(self.attempts.value(gradient, t=a), np.array(4.0)):
                    return [value, backward, gradient]
        return []

    def _functional(self) -> Dialect | None:
        for pull in pulls(self.name):
            if self.attempts.may_go_on and self._apart(pull, partial(self._pulls_back, pull)):
                found = self._found("data", "t", "t", "t", kind="functional")
                return replace(found, pull=pull)
        return None

    def _pulls_back(self, pull: str) -> list[str]:
        x, cotangent = sample((3,)), sample((3,), 1)
        try:
            output, vjp = self.attempts.evaluate(pull, function=lambda t: t * t, data=x.copy())
            gradient = vjp(cotangent)
        except BaseException as error:
            self.attempts.note(pull, error)
            return []
        return [pull] if same(output, x * x) and same(gradient, 2 * x * cotangent) else []

    # ----- Results -----

    def differentiates_sums(self) -> bool:
        """Whether the gradient of a sum is ones, so that only the cotangent is unsupported."""
        return any(
            self._apart(backward, partial(self._is_gradient_of_sum, leaf, backward))
            for leaf in self._readable.get(self.shape, ())
            for backward in from_sums(self.target, self.functions)
        )

    def _is_gradient_of_sum(self, leaf: str, backward: str) -> list[str]:
        x = sample((2, 3))
        t = self._value(leaf, x)
        if t is None or not self.attempts.runs(backward, t=t):
            return []
        forms = gradients(self.dialect.gradient, t, "")
        return [f for f in forms if same(self.attempts.value(f, t=t), np.ones_like(x))]

    def _apart(self, what: str, work: Callable[[], Any]) -> list[str] | None:
        return self.attempts.apart(what, lambda: list(work() or []), list[str])

    def _found(self, leaf: str, value: str, backward: str, gradient: str, *, kind: Any) -> Dialect:
        """Return the dialect with these expressions, and forget the failed attempts."""
        self.attempts.failed = []
        return replace(
            self.dialect, leaf=leaf, value=value, backward=backward, gradient=gradient, kind=kind
        )


def _first(forms: list[BackwardForm], work: FormCheck) -> list[str]:
    """The position of the first form that works; empty if there is none."""
    return [*islice((str(position) for position, form in enumerate(forms) if work(form)), 1)]
