"""The steps of a survey; each depends on the results of the steps before it."""

from __future__ import annotations

import inspect
import os
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from harness.core.run import NumericArray, Origin, failure_of, message_of
from harness.engines.adapter.adapters import open_library
from harness.engines.adapter.calling import attribute_of
from harness.engines.engine import Dialect
from harness.engines.loader import load
from harness.engines.origin import origin_of
from harness.engines.survey import ATTEMPT_MARKER, STEPS, Survey, SurveyFailed, SurveyStep
from harness.engines.survey.accumulation import accumulation_of
from harness.engines.survey.forms import (
    ARRAY_ATTRIBUTES,
    FUNCTIONAL,
    backward_methods,
    backwards,
    classes_of,
    from_sums,
    gradients,
    guarded,
    leaves,
    pulls,
    uses,
    values,
)
from harness.engines.survey.numbers import can_import, same, sample
from harness.engines.survey.unbroadcasting import OPS, calls_of, only_by, reducers_of


def survey(task: Survey) -> Iterator[SurveyStep]:
    """Run the steps in order, up to the first that fails."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    explorer = _Explorer(task)
    runs = (
        explorer.load,
        explorer.choose_class,
        explorer.find_expressions,
        explorer.find_accumulation,
        explorer.find_reducers,
    )
    for step, run in zip(STEPS, runs, strict=True):
        try:
            yield run()
        except BaseException as error:
            failure = failure_of(step, error, origin=explorer.cause or origin_of(error))
            yield SurveyStep(step, explorer.dialect, explorer.name, failure, explorer.attempts)
            return


_FUNCTIONS = "relu|sigmoid|softmax|log_softmax|exp|tanh|sum|mean|where|cat|concatenate|mul|multiply"
_DEFINES = re.compile(rf"^(?:def|class) (?:{_FUNCTIONS})\b", re.M)


class _Explorer:
    """The state of a survey: the module, the dialect so far, and the failed attempts."""

    def __init__(self, task: Survey) -> None:
        self.task, self.dialect, self.name = task, task.dialect, task.name
        self.attempts: list[str] = []
        self.cause: Origin | None = None
        """Where an attempt used a name that NumPy does not have."""
        self.module: Any = None
        self.library: Any = None
        self.shape: tuple[int, ...] = (2, 3)

    # ----- The import and the class -----

    def load(self) -> SurveyStep:
        sys.path.insert(0, self.task.root)
        self.module = load(self.dialect.module, Path(self.task.root), self.task.sources)
        return SurveyStep("the import", self.dialect, self.name)

    def choose_class(self) -> SurveyStep:
        """Choose the class of tensors, or the function that differentiates."""
        if self.name is None:
            self.name = self._guess()
        target: Any = self.module
        for part in self.name.split("."):
            target = attribute_of(target, part)
        if target is None or not callable(target):
            classes = ", ".join(classes_of(self.module)) or "none"
            raise SurveyFailed(
                f"the engine does not define `{self.name}`; its classes with a backward method: "
                f"{classes}"
            )
        self.target = target
        return SurveyStep("the class", self.dialect, self.name)

    def _guess(self) -> str:
        classes = classes_of(self.module)
        for name in (*classes, *FUNCTIONAL):
            if name in classes or callable(attribute_of(self.module, name)):
                return name
        raise SurveyFailed(
            "the engine has neither a class with a backward method nor any of the functions "
            + ", ".join(FUNCTIONAL)
        )

    # ----- The expressions -----

    def find_expressions(self) -> SurveyStep:
        """Find how to make a leaf, read it, run the backward pass and read the gradient."""
        self.dialect = replace(self.dialect, functions=self._modules_of_functions())
        functional = [] if inspect.isclass(self.target) else [self._functional_dialect]
        for search in (*functional, self._array_dialect, self._scalar_dialect):
            if dialect := search():
                self.dialect = dialect
                break
        else:
            raise SurveyFailed(self._failure())
        self.library = open_library(self.dialect, self.module)
        changes, dtype = self._storage()
        return SurveyStep(
            "the tensors", self.dialect, self.name, shape_changes=changes, dtype=dtype
        )

    def _failure(self) -> str:
        """Return why no dialect was found."""
        for name, value in vars(self.module).items():
            if isinstance(value, type) and hasattr(value, "__enter__") and backward_methods(value):
                method = backward_methods(value)[0]
                return (
                    f"it records only inside `with {name}()`, and its backward pass is "
                    f"`{name}.{method}`: an engine with a tape is not supported, because probes "
                    "compute outside such a block"
                )
        if self._differentiates_sums():
            return (
                "its backward pass starts from a sum, but it does not accept a cotangent: "
                "`backward` does not take one, and an output cannot be multiplied by it element "
                "by element"
            )
        return "no expressions were found that make a tensor, run backward and read its gradient"

    def _differentiates_sums(self) -> bool:
        """Whether the gradient of a sum is ones, so that only the cotangent is unsupported."""
        x = sample((2, 3))
        functions = (self.dialect.module, *self.dialect.functions)
        for leaf in leaves(self.dialect.leaf, self.name, self.target, {}):
            for backward in from_sums(self.target, functions):
                t = self._try(leaf, data=x.copy())
                if t is not None and self._runs(backward, t=t):
                    forms = gradients(self.dialect.gradient, t, "")
                    if any(same(self._try(form, t=t), np.ones_like(x)) for form in forms):
                        return True
        return False

    def _array_dialect(self) -> Dialect | None:
        """Search with two axes, then with three for engines that add an axis to two."""
        return self._array_dialect_for((2, 3)) or self._array_dialect_for((2, 3, 4))

    def _array_dialect_for(self, shape: tuple[int, ...]) -> Dialect | None:
        self.shape = shape
        x, cotangent = sample(shape), sample(shape, 1)
        top = self.dialect.module.partition(".")[0]
        modules = {"": self.module, f"{top}.": sys.modules.get(top)}
        for leaf in leaves(self.dialect.leaf, self.name, self.target, modules):
            t = self._try(leaf, data=x.copy())
            if t is None:
                continue
            for value in values(self.dialect.value, t):
                if not same(self._try(value, t=t), x):
                    continue
                dialect = self._with_backward(leaf, value, x, cotangent)
                if dialect and self._broadcasts(dialect):
                    return dialect
        return None

    def _broadcasts(self, dialect: Dialect) -> bool:
        """Whether shapes are handled; a scalar engine may store an array without knowing them."""
        if any(hasattr(self.target, name) for name in ARRAY_ATTRIBUTES):
            return True
        library = open_library(dialect, self.module)
        a, b = library.leaf(sample((3,))), library.leaf(sample((4, 3)))
        try:
            library.backward(a + b, np.ones((4, 3)))
            gradient = library.gradient(a)
            return gradient is not None and gradient.shape == (3,)
        except Exception:
            return False

    def _with_backward(
        self, leaf: str, value: str, x: NumericArray, cotangent: NumericArray
    ) -> Dialect | None:
        """The dialect with expressions for the backward pass and the gradient that work."""
        declared, functions = self.dialect.backward, (self.dialect.module, *self.dialect.functions)
        for backward in backwards(declared, leaf, self.target, functions):
            for use, slope in uses(self.dialect, leaf, x):
                t = self._try(leaf, data=x.copy())
                y = self._try(use, t=t)
                if y is None or not self._runs(backward, t=y, cotangent=cotangent.copy()):
                    continue
                for gradient in gradients(self.dialect.gradient, t, value):
                    if same(self._try(gradient, t=t), slope * cotangent):
                        found = guarded(gradient)
                        return self._found(leaf, value, backward, found, kind="arrays")
        return None

    def _scalar_dialect(self) -> Dialect | None:
        for leaf in leaves(self.dialect.leaf, self.name, self.target, {}):
            a, b = self._try(leaf, data=3.0), self._try(leaf, data=-2.0)
            if a is None or b is None:
                continue
            for value in values(self.dialect.value, a):
                if not same(self._try(value, t=a), np.array(3.0)):
                    continue
                for method in backward_methods(self.target):
                    backward = self.dialect.backward or f"t.{method}()"
                    a, b = self._try(leaf, data=3.0), self._try(leaf, data=-2.0)
                    y = self._try("t * u + t * t", t=a, u=b)
                    if y is None or not self._runs(backward, t=y):
                        continue
                    for gradient in gradients(self.dialect.gradient, a, value):
                        if same(self._try(gradient, t=a), np.array(4.0)):
                            return self._found(leaf, value, backward, gradient, kind="scalars")
        return None

    def _functional_dialect(self) -> Dialect | None:
        x, cotangent = sample((3,)), sample((3,), 1)
        for pull in pulls(self.name or ""):
            try:
                output, vjp = self._evaluate(pull, function=lambda t: t * t, data=x.copy())
                gradient = vjp(cotangent)
            except BaseException as error:
                self._note(pull, error)
                continue
            if same(output, x * x) and same(gradient, 2 * x * cotangent):
                return self._found("data", "t", "t", "t", pull=pull, kind="functional")
        return None

    def _found(self, leaf: str, value: str, backward: str, gradient: str, **others: Any) -> Dialect:
        """Return the dialect with these expressions, and forget the failed attempts."""
        self.attempts, self.cause = [], None
        return replace(
            self.dialect, leaf=leaf, value=value, backward=backward, gradient=gradient, **others
        )

    def _modules_of_functions(self) -> tuple[str, ...]:
        """The package's modules that define functions which probes call."""
        modules = list(self.dialect.functions)
        if not inspect.isclass(self.target):
            top = self.dialect.module.partition(".")[0]
            modules += [name for name in (f"{top}.numpy",) if can_import(name)]
        for file, text in self.task.sources.items():
            if _DEFINES.search(text):
                name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
                if name not in modules and can_import(name):
                    modules.append(name)
        return tuple(modules)

    def _storage(self) -> tuple[str, str]:
        """Return how storing data changes its shape, and the dtype in which it is stored."""
        changed = []
        dtype = "float64"
        for shape in ((), (3,), (2, 3)):
            try:
                stored = self.library.value(self.library.leaf(sample(shape)))
            except BaseException:
                changed.append(f"{shape} is refused")
                continue
            dtype = str(stored.dtype)
            if stored.shape != shape:
                changed.append(f"{shape} is stored as {stored.shape}")
        return "; ".join(changed), dtype

    # ----- Accumulation and un-broadcasting -----

    def find_accumulation(self) -> SurveyStep:
        """Find how a gradient is added to an earlier one."""
        step = SurveyStep("the accumulation", self.dialect, self.name)
        if self.dialect.kind == "functional":
            return step
        return accumulation_of(step, self.library, self.shape)

    def find_reducers(self) -> SurveyStep:
        """Find the functions that un-broadcast, and their callers."""
        calls = {op: calls_of(use, self.task.root, self.library) for op, use in OPS.items()}
        reducers = []
        for code, reducer in reducers_of(self.task, self.library):
            callers = {
                op: sorted({caller for called, caller in pairs if called is code and caller})
                for op, pairs in calls.items()
            }
            used = {op: names for op, names in callers.items() if names}
            reducers.append(msgspec.structs.replace(reducer, callers=used))
        return SurveyStep(
            "the un-broadcasting",
            self.dialect,
            self.name,
            reducers=sorted(reducers, key=lambda r: (not r.callers, r.file, r.line)),
            ops=only_by(calls),
        )

    # ----- Attempts -----

    def _evaluate(self, expression: str, **arguments: Any) -> Any:
        os.write(2, f"\n{ATTEMPT_MARKER} {expression}\n".encode())
        top = self.module.__name__.partition(".")[0]
        names = {"np": np, top: sys.modules[top], **vars(self.module)}
        return eval(expression, names, arguments)  # noqa: S307  this is the sandboxed child

    def _try(self, expression: str, **arguments: Any) -> Any:
        """The value of an expression, or None if it fails or an argument is None."""
        if any(argument is None for argument in arguments.values()):
            return None
        try:
            return self._evaluate(expression, **arguments)
        except BaseException as error:
            self._note(expression, error)
            return None

    def _runs(self, expression: str, **arguments: Any) -> bool:
        """Whether an expression can be evaluated without an error."""
        try:
            self._evaluate(expression, **arguments)
        except BaseException as error:
            self._note(expression, error)
            return False
        return True

    def _note(self, expression: str, error: BaseException) -> None:
        if (origin := origin_of(error)) and origin.missing:
            self.cause = origin
        attempt = f"{expression}: {type(error).__name__}: {message_of(error)}"
        if attempt not in self.attempts and len(self.attempts) < 40:
            self.attempts.append(attempt[:200])
