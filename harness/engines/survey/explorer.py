"""The steps of a survey, each of which needs what the ones before it found."""

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

from harness.core.run import NumericArray, failure_of, message_of
from harness.engines.adapter import open_library
from harness.engines.adapter.calling import attribute_of
from harness.engines.engine import Dialect
from harness.engines.loader import load
from harness.engines.survey.adding import added_up
from harness.engines.survey.forms import (
    FUNCTIONAL,
    OF_ARRAYS,
    backwards,
    classes_of,
    from_sums,
    gradients,
    guarded,
    leaves,
    pulls,
    uses,
    values,
    walks_of,
)
from harness.engines.survey.numbers import can_import, drawn, same
from harness.engines.survey.record import STEPS, TRYING, NothingWorked, Survey, Surveyed
from harness.engines.survey.reducing import OPS, calls_of, only_by, reducers_of


def survey(task: Survey) -> Iterator[Surveyed]:
    """Do the steps in order, up to the first that fails."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    explorer = _Explorer(task)
    for step, take in zip(
        STEPS,
        (explorer.load, explorer.choose, explorer.speak, explorer.accumulate, explorer.reduce),
        strict=True,
    ):
        try:
            yield take()
        except BaseException as error:
            failure = failure_of(step, error)
            yield Surveyed(step, explorer.dialect, explorer.name, failure, explorer.tried)
            return


_FUNCTIONS = "relu|sigmoid|softmax|log_softmax|exp|tanh|sum|mean|where|cat|concatenate|mul|multiply"
_DEFINES = re.compile(rf"^(?:def|class) (?:{_FUNCTIONS})\b", re.M)


class _Explorer:
    """What is known so far."""

    def __init__(self, task: Survey) -> None:
        self.task, self.dialect, self.name = task, task.dialect, task.name
        self.tried: list[str] = []
        self.module: Any = None
        self.library: Any = None
        self.shape: tuple[int, ...] = (2, 3)

    # ----- The import and the class -----

    def load(self) -> Surveyed:
        sys.path.insert(0, self.task.root)
        self.module = load(self.dialect.module, Path(self.task.root), self.task.sources)
        return Surveyed("the import", self.dialect, self.name)

    def choose(self) -> Surveyed:
        """The class of tensors, or the function that differentiates."""
        if self.name is None:
            self.name = self._guess()
        found: Any = self.module
        for part in self.name.split("."):
            found = attribute_of(found, part)
        if found is None or not callable(found):
            there = ", ".join(classes_of(self.module)) or "none"
            raise NothingWorked(f"`{self.name}` is not there; classes with a backward: {there}")
        self.target = found
        return Surveyed("the class", self.dialect, self.name)

    def _guess(self) -> str:
        classes = classes_of(self.module)
        for name in (*classes, *FUNCTIONAL):
            if name in classes or callable(attribute_of(self.module, name)):
                return name
        raise NothingWorked("no class with a backward, and none of " + ", ".join(FUNCTIONAL))

    # ----- How to speak -----

    def speak(self) -> Surveyed:
        self.dialect = replace(self.dialect, functions=self._modules_of_functions())
        transforms = [] if inspect.isclass(self.target) else [self._function]
        for way in (*transforms, self._arrays, self._numbers):
            if found := way():
                self.dialect = found
                break
        else:
            raise NothingWorked(self._why())
        self.library = open_library(self.dialect, self.module)
        padded, dtype = self._storage()
        return Surveyed("the tensors", self.dialect, self.name, padded=padded, dtype=dtype)

    def _why(self) -> str:
        """Why nothing worked, where that can be seen."""
        for name, value in vars(self.module).items():
            if isinstance(value, type) and hasattr(value, "__enter__") and walks_of(value):
                walk = walks_of(value)[0]
                return (
                    f"it records only inside `with {name}()`, and walks back by `{name}.{walk}`: "
                    "probes compute without such a block, so an engine with a tape is out of reach"
                )
        if self._walks_from_sums():
            return (
                "it walks back from a sum, but no way was found to give it a cotangent: neither "
                "`backward` takes one, nor can an output be multiplied by it element by element"
            )
        return "no way was found to make a tensor, walk back and read its gradient"

    def _walks_from_sums(self) -> bool:
        """Whether ones come back from a sum: nothing but a cotangent is missing then."""
        x = drawn((2, 3))
        functions = (self.dialect.module, *self.dialect.functions)
        for leaf in leaves(self.dialect.leaf, self.name, self.target, {}):
            for backward in from_sums(self.target, functions):
                t = self._try(leaf, data=x.copy())
                if t is not None and self._does(backward, t=t):
                    forms = gradients(self.dialect.gradient, t, "")
                    if any(same(self._try(form, t=t), np.ones_like(x)) for form in forms):
                        return True
        return False

    def _arrays(self) -> Dialect | None:
        """With an array of two axes; with three where an engine adds one of its own to those."""
        return self._arrays_of((2, 3)) or self._arrays_of((2, 3, 4))

    def _arrays_of(self, shape: tuple[int, ...]) -> Dialect | None:
        self.shape = shape
        x, cotangent = drawn(shape), drawn(shape, 1)
        top = self.dialect.module.partition(".")[0]
        modules = {"": self.module, f"{top}.": sys.modules.get(top)}
        for leaf in leaves(self.dialect.leaf, self.name, self.target, modules):
            made = self._try(leaf, data=x.copy())
            if made is None:
                continue
            for value in values(self.dialect.value, made):
                if not same(self._try(value, t=made), x):
                    continue
                found = self._walk(leaf, value, x, cotangent)
                if found and self._knows_shapes(found):
                    return found
        return None

    def _knows_shapes(self, found: Dialect) -> bool:
        """One of numbers takes an array as well, and then does not know what its shape means."""
        if any(hasattr(self.target, name) for name in OF_ARRAYS):
            return True
        library = open_library(found, self.module)
        a, b = library.leaf(drawn((3,))), library.leaf(drawn((4, 3)))
        try:
            library.backward(a + b, np.ones((4, 3)))
            gradient = library.gradient(a)
            return gradient is not None and gradient.shape == (3,)
        except Exception:
            return False

    def _walk(
        self, leaf: str, value: str, x: NumericArray, cotangent: NumericArray
    ) -> Dialect | None:
        said, functions = self.dialect.backward, (self.dialect.module, *self.dialect.functions)
        for backward in backwards(said, leaf, self.target, functions):
            for use, slope in uses(self.dialect, leaf, x):
                t = self._try(leaf, data=x.copy())
                y = self._try(use, t=t)
                if y is None or not self._does(backward, t=y, cotangent=cotangent.copy()):
                    continue
                for gradient in gradients(self.dialect.gradient, t, value):
                    if same(self._try(gradient, t=t), slope * cotangent):
                        self.tried = []
                        return replace(
                            self.dialect,
                            leaf=leaf,
                            value=value,
                            gradient=guarded(gradient),
                            backward=backward,
                            kind="arrays",
                        )
        return None

    def _numbers(self) -> Dialect | None:
        for leaf in leaves(self.dialect.leaf, self.name, self.target, {}):
            a, b = self._try(leaf, data=3.0), self._try(leaf, data=-2.0)
            if a is None or b is None:
                continue
            for value in values(self.dialect.value, a):
                if not same(self._try(value, t=a), np.array(3.0)):
                    continue
                for method in walks_of(self.target):
                    backward = self.dialect.backward or f"t.{method}()"
                    a, b = self._try(leaf, data=3.0), self._try(leaf, data=-2.0)
                    y = self._try("t * u + t * t", t=a, u=b)
                    if y is None or not self._does(backward, t=y):
                        continue
                    for gradient in gradients(self.dialect.gradient, a, value):
                        if same(self._try(gradient, t=a), np.array(4.0)):
                            self.tried = []
                            return replace(
                                self.dialect,
                                leaf=leaf,
                                value=value,
                                gradient=gradient,
                                backward=backward,
                                kind="scalars",
                            )
        return None

    def _function(self) -> Dialect | None:
        x, cotangent = drawn((3,)), drawn((3,), 1)
        for pull in pulls(self.name or ""):
            try:
                output, back = self._say(pull, function=lambda t: t * t, data=x.copy())
                arrived = back(cotangent)
            except BaseException as error:
                self._note(pull, error)
                continue
            if same(output, x * x) and same(arrived, 2 * x * cotangent):
                self.tried = []
                said = replace(self.dialect, leaf="data", value="t", gradient="t", backward="t")
                return replace(said, pull=pull, kind="functional")
        return None

    def _modules_of_functions(self) -> tuple[str, ...]:
        """Those of the package's modules that define what probes call by a function."""
        said = list(self.dialect.functions)
        if not inspect.isclass(self.target):
            top = self.dialect.module.partition(".")[0]
            said += [name for name in (f"{top}.numpy",) if can_import(name)]
        for file, text in self.task.sources.items():
            if _DEFINES.search(text):
                name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
                if name not in said and can_import(name):
                    said.append(name)
        return tuple(said)

    def _storage(self) -> tuple[str, str]:
        """How shapes and dtypes are changed by storing them."""
        changed = []
        dtype = "float64"
        for shape in ((), (3,), (2, 3)):
            try:
                stored = self.library.value(self.library.leaf(drawn(shape)))
            except BaseException:
                changed.append(f"{shape} is refused")
                continue
            dtype = str(stored.dtype)
            if stored.shape != shape:
                changed.append(f"{shape} is stored as {stored.shape}")
        return "; ".join(changed), dtype

    # ----- How gradients are added up -----

    def accumulate(self) -> Surveyed:
        """What becomes of a gradient where another arrives."""
        said = Surveyed("the accumulation", self.dialect, self.name)
        return (
            said if self.dialect.kind == "functional" else added_up(said, self.library, self.shape)
        )

    # ----- How it reduces what broadcasting has stretched -----

    def reduce(self) -> Surveyed:
        """The functions that un-broadcast, and who calls them."""
        calls = {op: calls_of(use, self.task.root, self.library) for op, use in OPS.items()}
        reducers = []
        for code, reducer in reducers_of(self.task, self.library):
            callers = {
                op: sorted({caller for called, caller in pairs if called is code and caller})
                for op, pairs in calls.items()
            }
            used = {op: names for op, names in callers.items() if names}
            reducers.append(msgspec.structs.replace(reducer, callers=used))
        return Surveyed(
            "the un-broadcasting",
            self.dialect,
            self.name,
            reducers=sorted(reducers, key=lambda each: (not each.callers, each.file, each.line)),
            ops=only_by(calls),
        )

    # ----- Trying -----

    def _say(self, expression: str, **given: Any) -> Any:
        os.write(2, f"\n{TRYING} {expression}\n".encode())
        top = self.module.__name__.partition(".")[0]
        names = {"np": np, top: sys.modules[top], **vars(self.module)}
        return eval(expression, names, given)  # noqa: S307  it is tried in the sandbox

    def _try(self, expression: str, **given: Any) -> Any:
        if any(each is None for each in given.values()):
            return None
        try:
            return self._say(expression, **given)
        except BaseException as error:
            self._note(expression, error)
            return None

    def _does(self, expression: str, **given: Any) -> bool:
        try:
            self._say(expression, **given)
        except BaseException as error:
            self._note(expression, error)
            return False
        return True

    def _note(self, expression: str, error: BaseException) -> None:
        said = f"{expression}: {type(error).__name__}: {message_of(error)}"
        if said not in self.tried and len(self.tried) < 40:
            self.tried.append(said[:200])
