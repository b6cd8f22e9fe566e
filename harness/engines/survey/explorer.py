"""The steps of a survey; each depends on the results of the steps before it."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from harness.core.run import Failure, NumericArray, failure_of, name_of_phase
from harness.core.vocabulary import Phase
from harness.engines.adapter import open_library
from harness.engines.adapter.arrays import Adapter
from harness.engines.calling import attribute_of, origin_of
from harness.engines.engine import Dialect
from harness.engines.loading import load
from harness.engines.survey import STEPS, ShapeChange, Survey, SurveyFailed, SurveyStep
from harness.engines.survey.attempts import (
    Attempts,
    Shape,
    same,
    sample,
)
from harness.engines.survey.forms import (
    FUNCTIONAL,
    backward_methods,
    misnamed_operators,
    targets_of,
)
from harness.engines.survey.search import Candidate, Search
from harness.engines.survey.unbroadcasting import find_reducers

Result = TypeVar("Result")


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
            result = run()
        except BaseException as error:
            result = explorer.failed(step, error)
        yield result
        if result.failure:
            return


_FUNCTIONS = "relu|sigmoid|softmax|log_softmax|exp|tanh|sum|mean|where|cat|concatenate|mul|multiply"
_DEFINES = re.compile(rf"^(?:def|class) (?:{_FUNCTIONS})\b", re.M)
_DIFFERENTIATES = re.compile(r"^def \w*(?:back|grad|deriv)", re.M)

_MOST_TARGETS = 4

_SHAPES: tuple[Shape, ...] = ((), (3,), (2, 3), (2, 3, 4), (2, 3, 4, 5))
_SIMPLEST = 4
"""The number of probes that show whether an engine handles a shape."""


class _Explorer:
    """The state of a survey: the module, the dialect so far, and the failed attempts."""

    def __init__(self, task: Survey) -> None:
        self.task, self.dialect, self.name = task, task.dialect, task.name
        self.module: Any = None
        self.attempts: Attempts | None = None
        self.chosen: Candidate
        self.closest = task.dialect
        """The dialect with the expressions that were found, if others were not."""

    def failed(self, step: Phase, error: BaseException) -> SurveyStep:
        """The result of a step that raised this exception."""
        attempts = self.attempts.failed if self.attempts else []
        cause = self.attempts.cause if self.attempts else None
        failure = (
            error.failure
            if isinstance(error, _FailedApart)
            else failure_of(step, error, origin=cause or origin_of(error))
        )
        return SurveyStep(step, self.closest, self.name, failure, attempts)

    # ----- The import and the class -----

    def load(self) -> SurveyStep:
        sys.path.insert(0, self.task.root)
        self.module = load(self.dialect.module, Path(self.task.root), self.task.sources)
        for name in self.dialect.functions:
            importlib.import_module(name)
        return SurveyStep(Phase.IMPORT, self.dialect, self.name)

    def choose_class(self) -> SurveyStep:
        """Choose the classes of tensors, or functions that differentiate, to be tried in order."""
        found = targets_of(self.module, self._is_own)
        target = found[0] if self.name is None and found else self.name
        if target is None:
            raise SurveyFailed(
                "the engine has neither a class with a backward method or arithmetic nor any of "
                "the functions " + ", ".join(FUNCTIONAL)
            )
        if not callable(self._attribute(target)):
            defined = found or self._defined()
            self.name = next(iter(defined), None)  # for the remedy
            raise SurveyFailed(
                f"the engine does not define `{target}`; what may be meant: {', '.join(defined)}"
                if defined
                else f"the engine does not define `{target}`, nor any other class or function"
            )
        names = found[:_MOST_TARGETS] if self.name is None else [self.name]
        self.candidates = {name: self._attribute(name) for name in names}
        self.name = target
        return SurveyStep(Phase.CLASS, self.dialect, self.name)

    def _attribute(self, name: str) -> Any:
        return reduce(attribute_of, name.split("."), self.module)

    def _defined(self) -> list[str]:
        """Return the public classes that the module defines, and then its functions."""
        public = {name: v for name, v in vars(self.module).items() if not name.startswith("_")}
        classes = (name for name, v in public.items() if inspect.isclass(v) and self._is_own(v))
        here = self.module.__name__
        own = (n for n, v in public.items() if inspect.isfunction(v) and v.__module__ == here)
        return [*classes, *own]

    def _is_own(self, value: Any) -> bool:
        """Whether a class is defined in the engine, and not imported from elsewhere."""
        if not inspect.isclass(value):
            return True
        top = self.dialect.module.partition(".")[0]
        own = {top, *(file.removesuffix(".py").partition("/")[0] for file in self.task.sources)}
        return str(value.__module__).partition(".")[0] in own

    # ----- The expressions -----

    def find_expressions(self) -> SurveyStep:
        """Find how to make a leaf, read it, run the backward pass and read the gradient."""
        self.name, chosen = self._search()
        self.dialect = chosen.dialect
        changes, dtype = self._apart(Phase.TENSORS, self._storage, tuple[list[ShapeChange], str])
        refused = tuple(len(change.shape) for change in changes if change.stored is None)
        stated = self.task.dialect.refused_ranks
        self.dialect = replace(self.dialect, refused_ranks=stated or refused)
        return SurveyStep(
            Phase.TENSORS,
            self.dialect,
            self.name,
            shape_changes=changes,
            dtype=dtype,
            one_op=chosen.trial.outcomes,
            misnamed=misnamed_operators(self.candidates[self.name]),
        )

    def _search(self) -> tuple[str, Candidate]:
        """Search the expressions of each class. Raises SurveyFailed if none has any."""
        top = self.dialect.module.partition(".")[0]
        modules = {"": self.module, f"{top}.": sys.modules.get(top)}
        differentiating = self._modules(_DIFFERENTIATES, (self.dialect.module,))
        self.attempts = Attempts(self.module, (*self.dialect.functions, *differentiating))
        candidates: list[tuple[str, Candidate]] = []
        searches = []
        for name, target in self.candidates.items():
            dialect = replace(self.dialect, functions=self._functions(target))
            functions = tuple(dict.fromkeys((*dialect.functions, *differentiating)))
            search = Search(self.attempts, dialect, (name, target), self.module, functions)
            searches.append(search)
            if found := search.find(modules):
                candidates.append((name, found))
                if found.accepted:
                    break
        usable = [pair for pair in candidates if pair[1].works or self.dialect.backward]
        if not usable:
            best = next((search for search in searches if search.closest.value), searches[0])
            self.name, self.closest = best.name, best.closest
            raise SurveyFailed(self._refusal(best))
        name, chosen = max(usable, key=lambda pair: pair[1].rank)
        self.attempts.failed = []
        self.chosen = chosen
        return name, replace(chosen, dialect=self._with_used(chosen.dialect, differentiating))

    def _functions(self, target: Any) -> tuple[str, ...]:
        """The modules with functions of tensors; a functional engine wraps NumPy in one."""
        stated = list(self.dialect.functions)
        wrapped = f"{self.dialect.module.partition('.')[0]}.numpy"
        if not inspect.isclass(target) and wrapped not in stated and _can_import(wrapped):
            stated.append(wrapped)
        return self._modules(_DEFINES, stated)

    def _with_used(self, dialect: Dialect, modules: Iterable[str]) -> Dialect:
        """The dialect with the modules that its expressions name."""
        used = [
            module
            for module in modules
            if module not in (dialect.module, *dialect.functions)
            if f"{module}." in f"{dialect.leaf} {dialect.backward}"
        ]
        return replace(dialect, functions=(*dialect.functions, *used))

    def _refusal(self, search: Search) -> str:
        """Return why the engine cannot be called."""
        for name, value in vars(self.module).items():
            if isinstance(value, type) and hasattr(value, "__enter__") and backward_methods(value):
                method = backward_methods(value)[0]
                return (
                    f"it records only inside `with {name}()`, and its backward pass is "
                    f"`{name}.{method}`: an engine with a tape is not supported, because probes "
                    "compute outside such a block"
                )
        if not search.closest.value:
            return "no expressions were found that make a tensor and read its data"
        return (
            "no expressions were found that run its backward pass with a cotangent, or from an "
            "output that was multiplied by one, and read a gradient"
        )

    def _modules(self, defines: re.Pattern[str], first: Iterable[str]) -> tuple[str, ...]:
        """These modules, and the engine's others whose source defines what the pattern finds."""
        modules = list(first)
        for file, text in self.task.sources.items():
            name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            if name not in modules and defines.search(text) and _can_import(name):
                modules.append(name)
        return tuple(modules)

    def _storage(self) -> tuple[list[ShapeChange], str]:
        """Return which shapes the engine does not handle, and the dtype in which it stores data.

        It does not handle a shape that it changes or refuses, or with which the simplest probes
        fail, or give gradients of another shape.
        """
        library = open_library(self.dialect, self.module)
        changed, dtype = [], "float64"
        for shape in _SHAPES:
            try:
                stored = library.value(library.leaf(sample(shape)))
            except BaseException:
                changed.append(ShapeChange(shape, None))
                continue
            dtype = str(stored.dtype)
            if stored.shape != shape:
                changed.append(ShapeChange(shape, stored.shape))
            elif not self._handles(library, shape):
                changed.append(ShapeChange(shape, None))
        return changed, dtype

    def _handles(self, library: Any, shape: Shape) -> bool:
        """Whether a leaf of this shape gets a gradient of its shape from one of the simplest probes
        that come out right with the first shape. It may be wrong: then the engine has a bug."""
        outcomes, dialect = self.chosen.trial.outcomes, self.dialect
        simplest = [probe for probe in list(outcomes)[:_SIMPLEST] if outcomes[probe] == "right"]
        if dialect.kind != "arrays" or not simplest or not dialect.stores_gradients:
            return True
        assert self.attempts is not None
        apart = partial(self.attempts.apart, str(shape), kind=bool, limited=False)
        return any(
            apart(work=partial(self._keeps_shape, library, shape, probe)) for probe in simplest
        )

    def _keeps_shape(self, library: Any, shape: Shape, probe: str) -> bool:
        assert self.attempts is not None
        leaves = {name: library.leaf(sample(shape, seed)) for seed, name in enumerate("tu")}
        library.backward(self.attempts.evaluate(probe, **leaves), sample(shape, 2))
        gradient = library.gradient(leaves["t"])
        return gradient is not None and gradient.shape == shape

    # ----- Accumulation and un-broadcasting -----

    def find_accumulation(self) -> SurveyStep:
        """Find how a gradient is added to an earlier one."""
        step = SurveyStep(Phase.ACCUMULATION, self.dialect, self.name)
        if self.dialect.kind == "functional":
            return msgspec.structs.replace(step, second_backward="returned")
        library: Any = open_library(self.dialect, self.module)
        work = partial(accumulation_of, step, library, self.chosen.shape)
        try:
            return self._apart(Phase.ACCUMULATION, work, SurveyStep)
        except _FailedApart:  # its bug is in every backward pass
            return step

    def find_reducers(self) -> SurveyStep:
        """Find the functions that un-broadcast, their callers, and what happens without them."""
        step = SurveyStep(Phase.UNBROADCASTING, self.dialect, self.name)
        assert self.attempts is not None
        return find_reducers(step, self.task, self.module, self.attempts)

    def _apart(self, step: Phase, work: Callable[[], Result], kind: type[Result]) -> Result:
        """Return the result of `work` in a fork. Raises _FailedApart if it fails."""

        def attempt() -> tuple[Failure | None, Result | None]:
            try:
                return None, work()
            except BaseException as error:
                return failure_of(step, error, origin=origin_of(error)), None

        assert self.attempts is not None
        pair: Any = tuple[Failure | None, kind | None]  # type: ignore[valid-type]
        both = self.attempts.apart(str(name_of_phase(step)), attempt, pair, limited=False)
        failure, result = both or (Failure(step, "SurveyFailed", "it ended the process"), None)
        if failure or result is None:
            raise _FailedApart(failure or Failure(step, "SurveyFailed", "it gave no result"))
        return result


class _FailedApart(Exception):
    """A failure in a fork."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _can_import(name: str) -> bool:
    """Whether a module of the engine can be imported."""
    try:
        importlib.import_module(name)
    except BaseException:
        return False
    return True


# ----- Accumulation: values and memory of gradients around a second backward pass -----

USES: tuple[Callable[..., Any], ...] = (
    lambda leaf, other: leaf * leaf,  # noqa: ARG005
    lambda leaf, other: leaf + leaf,  # noqa: ARG005
    lambda leaf, other: leaf * other,
    lambda leaf, other: leaf + other,
)
"""Uses of a leaf in a forward pass; the first that works is used."""


def accumulation_of(step: SurveyStep, library: Adapter, shape: Shape) -> SurveyStep:
    """Return the step, completed with how the engine accumulates gradients of this shape."""
    late = _reads_late(library, shape)
    if not library.dialect.stores_gradients:
        return msgspec.structs.replace(step, second_backward="returned", reads_late=late)
    cotangent = sample(shape, 1)
    leaf, use, first = _first_backward(library, cotangent)
    initial = _kind_of_gradient(_stored_gradient(library, library.leaf(sample(shape))))
    copy_of_first = None if first is None else np.array(first, copy=True)
    try:
        second = _gradient_after(library, use(leaf), leaf, cotangent)
    except Exception:
        return msgspec.structs.replace(step, initial_gradient=initial, second_backward="refused")
    effect = ""
    if first is not None and second is not None and copy_of_first is not None:
        in_place = np.shares_memory(np.asarray(first), np.asarray(second))
        doubled = same(second, 2 * copy_of_first)
        effect = ("in place" if in_place else "rebound") if doubled else "replaced"
    return msgspec.structs.replace(
        step,
        initial_gradient=initial,
        second_backward=effect,
        shares_memory=_shares_memory(library, shape),
        reads_late=late,
    )


def _first_backward(
    library: Adapter, cotangent: NumericArray
) -> tuple[Any, Callable[[Any], Any], Any]:
    """Return a leaf after a backward pass, how it was used, and its gradient."""
    other = library.leaf(sample(cotangent.shape, 2))
    failure = Exception()
    for use in USES:
        leaf, used = library.leaf(sample(cotangent.shape)), partial(use, other=other)
        try:
            return leaf, used, _gradient_after(library, used(leaf), leaf, cotangent)
        except Exception as error:  # a missing operator, or a leaf that can be used only once
            failure = error
    raise failure


def _gradient_after(library: Adapter, output: Any, leaf: Any, cotangent: NumericArray) -> Any:
    library.backward(output, cotangent.copy())
    return library.gradient(leaf)


def _stored_gradient(library: Adapter, leaf: Any) -> Any:
    """Return the attribute that the gradient is read from, before any conversion."""
    native = leaf.native
    tensor = native.flat[0] if library.dialect.kind == "scalars" else native
    attribute = re.search(r"\bt\.(\w+)", library.dialect.gradient)  # also inside a guard
    return attribute_of(tensor, attribute[1]) if attribute else None


def _reads_late(library: Adapter, shape: Shape) -> bool:
    """Whether changing a leaf between the passes changes the gradient."""
    x, cotangent = sample(shape), np.ones(shape)
    leaf = library.leaf(x)
    try:
        output = leaf * leaf
        library.assign(leaf, x + 1)
        return same(_gradient_after(library, output, leaf, cotangent), 2 * (x + 1))
    except Exception:
        return False


def _shares_memory(library: Adapter, shape: Shape) -> bool:
    """Whether the gradients of `a + b` share memory with each other or with the cotangent."""
    a, b = (library.leaf(sample(shape, seed)) for seed in (0, 1))
    cotangent = sample(shape, 2)
    try:
        library.backward(a + b, cotangent)
        first, second = library.gradient(a), library.gradient(b)
    except BaseException:
        return False
    if first is None or second is None:
        return False
    return bool(np.shares_memory(first, second) or np.shares_memory(first, cotangent))


def _kind_of_gradient(gradient: Any) -> str:
    """The kind of a leaf's initial gradient: none, number or zeros."""
    if gradient is None:
        return "none"
    if isinstance(gradient, int | float):
        return "number"
    return "zeros" if np.shape(getattr(gradient, "data", gradient)) else "number"
