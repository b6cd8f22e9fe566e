"""Which functions of an engine un-broadcast, who calls them, and whether they are right."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import msgspec
import numpy as np

from harness.engines.adapter import open_library
from harness.engines.calling import attribute_of
from harness.engines.loading import CallRecorder
from harness.engines.survey import Reducer, Survey, SurveyStep
from harness.engines.survey.attempts import Attempts, same, sample
from harness.engines.survey.reducing import (
    FULL,
    ROWS,
    CallForm,
    EngineFunction,
    Flaw,
    Keeper,
    OpUse,
    flaws_of,
    forms_of,
    functions_of,
    mentions_sums,
    row_of,
    summed,
    unsummed,
    working_form,
)


class CodeLocation(msgspec.Struct, frozen=True):
    """Where a function's code is: four lambdas have one name, and are four places."""

    file: str
    line: int
    end: tuple[int | None, int | None]
    """The line and column of its last instruction; a line may have several lambdas."""
    name: str
    """Its qualified name."""


OpCalls = list[tuple[CodeLocation, CodeLocation | None]]
"""The engine's code that ran for an op, forward and backward, each with its caller."""

OPS: dict[str, OpUse] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
}
_SLOPES: dict[str, Callable[..., tuple[Any, Any]]] = {
    "add": lambda a, b: (1.0, 1.0),  # noqa: ARG005
    "sub": lambda a, b: (1.0, -1.0),  # noqa: ARG005
    "mul": lambda a, b: (b, a),
    "div": lambda a, b: (1 / b, -a / b**2),
}
"""The derivatives of an op with respect to its operands."""


def find_reducers(
    step: SurveyStep, task: Survey, module: ModuleType, attempts: Attempts
) -> SurveyStep:
    """Return the step, completed with the functions that un-broadcast, and their callers."""
    library = open_library(step.dialect, module)
    modules = _modules_of(task)
    calls = {
        op: attempts.apart(op, partial(_calls_of, use, task, library), OpCalls) or []
        for op, use in OPS.items()
    }
    keys = _keys_of(modules)
    places = (place for pairs in calls.values() for pair in pairs for place in pair if place)
    names = _labels(places, keys, task.root)
    reducers: list[Reducer] = []
    keepers: dict[str, list[Keeper]] = {}
    for function, form, row in _reducing(modules, task, library, attempts):
        callers = _callers(function, calls)
        for op in callers:
            keepers.setdefault(op, []).append((function, form.gradient))
        flaws = _flaws(form, callers, library, attempts)
        reducers.append(_reducer(function, row, callers, names, calls, flaws, task))
    only = _only_by(calls)
    stored = step.dialect.kind == "arrays" and step.dialect.stores_gradients
    seen = partial(_reductions, OPS.values(), task.root, library)
    found = attempts.apart("gradient", seen, tuple[dict[str, int], str])
    gradient_arguments, accumulator = found or ({}, "")
    return msgspec.structs.replace(
        step,
        gradient_arguments=gradient_arguments,
        accumulator=accumulator,
        reducers=sorted(reducers, key=lambda r: (not r.callers, r.file, r.line)),
        ops={op: sorted({names[place] for place in places}) for op, places in only.items()},
        keys={op: keys[place][1] for op, places in only.items() for place in places & set(keys)},
        unsummed=unsummed(library, OPS, keepers, attempts) if stored else {},
    )


# ----- Calls -----


def _calls_of(use: OpUse, task: Survey, library: Any) -> OpCalls:
    values = {"a": sample(FULL), "b": np.abs(sample(row_of(library), 1)) + 1.0}
    leaves = {name: library.leaf(data) for name, data in values.items()}
    recorder = CallRecorder(task.files)
    recorder.start()
    try:
        output = library.call(use, (), leaves)
        library.backward(output, np.ones(FULL))
    finally:
        calls = recorder.stop() or []
    files = task.files
    own = ((code, by if by and by.co_filename in files else None) for code, by in calls)
    return list(dict.fromkeys((_location_of(code), by and _location_of(by)) for code, by in own))


def _callers(
    function: EngineFunction, calls: Mapping[str, OpCalls]
) -> dict[str, set[CodeLocation]]:
    """The places that called a function in the passes of each op."""
    code = function.code
    place = None if code is None else _location_of(code)
    callers = {
        op: {by for called, by in pairs if called == place and by} for op, pairs in calls.items()
    }
    return {op: places for op, places in callers.items() if places}


def _only_by(calls: Mapping[str, OpCalls]) -> dict[str, set[CodeLocation]]:
    """The places that run for one op only, by op."""
    ran = {op: {place for place, _ in pairs} for op, pairs in calls.items()}
    return {
        op: places - set().union(*(others for other, others in ran.items() if other != op))
        for op, places in ran.items()
    }


# ----- Functions that sum -----


def _reducing(
    modules: Iterable[ModuleType], task: Survey, library: Any, attempts: Attempts
) -> Iterable[tuple[EngineFunction, CallForm, int]]:
    """Yield each function that sums ones((4, 3)) to a row, with how it is called."""
    files, visited = task.files, set()
    for module in modules:
        for function in functions_of(module):
            code = function.code
            if code is None or code in visited or code.co_filename not in files:
                continue
            visited.add(code)
            if not mentions_sums(code):
                continue
            work = partial(working_form, function, library)
            if found := attempts.apart(function.name, work, tuple[int, int]):
                yield function, forms_of(function, library)[found[0]], found[1]


def _reducer(
    function: EngineFunction,
    row: int,
    callers: Mapping[str, set[CodeLocation]],
    names: Mapping[CodeLocation, str],
    calls: Mapping[str, OpCalls],
    flaws: list[str],
    task: Survey,
) -> Reducer:
    code = function.code
    assert code is not None
    return Reducer(
        module=function.module,
        name=function.name,
        file=Path(code.co_filename).relative_to(task.root).as_posix(),
        line=code.co_firstlineno,
        callers={op: sorted({names[place] for place in by}) for op, by in callers.items()},
        flaws=flaws,
        central=_central(callers, names, calls),
        shape=str(ROWS[row]),
    )


def _central(
    callers: Mapping[str, set[CodeLocation]],
    names: Mapping[CodeLocation, str],
    calls: Mapping[str, OpCalls],
) -> str:
    """Return the only place from which all ops call a function; "" if there is no such place."""
    places = set().union(*callers.values())
    every = {op for op, pairs in calls.items() if pairs}
    is_central = len(places) == 1 and len(callers) > 1 and set(callers) == every
    return names[places.pop()] if is_central else ""


# ----- Flaws -----


def _flaws(form: CallForm, callers: Iterable[str], library: Any, attempts: Attempts) -> list[str]:
    """The flaws of a function that make an op's gradient wrong; callers repair the others."""
    found = attempts.apart("shapes", partial(flaws_of, form.reduce), list[Flaw]) or []
    return [
        str(flaw)
        for flaw in found
        if any(
            attempts.apart(op, partial(_is_wrong, library, op, flaw, first), bool)
            for op in callers
            for first in (False, True)
        )
    ]


def _is_wrong(library: Any, op: str, flaw: Flaw, first: bool) -> bool:
    """Whether an op's gradient is wrong where it has to be summed to the flaw's target."""
    shapes = (flaw.target, flaw.shape) if first else (flaw.shape, flaw.target)
    values = [np.abs(sample(shape, seed)) + 1.0 for seed, shape in enumerate(shapes)]
    leaves = dict(zip("ab", map(library.leaf, values), strict=True))
    if any(library.value(leaf).shape != s for leaf, s in zip(leaves.values(), shapes, strict=True)):
        return False
    output = library.call(OPS[op], (), leaves)
    cotangent = sample(flaw.shape, 2)
    if library.value(output).shape != cotangent.shape:
        return False
    slope, leaf = _SLOPES[op](*values)[not first], leaves["a" if first else "b"]
    try:
        library.backward(output, cotangent.copy())
        gradient = library.gradient(leaf)
    except Exception:
        return True
    return not same(gradient, summed(slope * cotangent, flaw.target))


# ----- Places in an engine's code, and their names -----


def _location_of(code: CodeType) -> CodeLocation:
    """Return the place of a function's code."""
    *_, (line, _, column, _) = code.co_positions()
    return CodeLocation(code.co_filename, code.co_firstlineno, (line, column), code.co_qualname)


def _modules_of(task: Survey) -> list[ModuleType]:
    """The engine's modules that are imported, each file once."""
    files = task.files
    tops = {file.partition("/")[0].removesuffix(".py") for file in task.sources}
    # In tests of the harness, the same file may also be imported under another name.
    return [
        module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in tops and attribute_of(module, "__file__") in files
    ]


def _keys_of(modules: Iterable[ModuleType]) -> dict[CodeLocation, tuple[str, str]]:
    """The functions in tables of rules: for each, the table's name and the key, a string."""
    return {
        place: (table, key)
        for module in modules
        for table, mapping in _tables(module)
        for key, value in list(mapping.items())
        if isinstance(key, str)
        for place in _places_in(value)
    }


def _tables(module: ModuleType) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    for name, value in list(vars(module).items()):
        if isinstance(value, dict) and not name.startswith("__"):
            yield name, value
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for attribute, mapping in list(vars(value).items()):
                if isinstance(mapping, dict):
                    yield f"{name}.{attribute}", mapping


def _places_in(value: Any) -> Iterator[CodeLocation]:
    """The functions that a table has for a key: one, or one for each operand."""
    for item in value if isinstance(value, tuple | list) else (value,):
        code = attribute_of(item, "__code__")
        if isinstance(code, CodeType):
            yield _location_of(code)


def _labels(
    places: Iterable[CodeLocation], keys: Mapping[CodeLocation, tuple[str, str]], root: str
) -> dict[CodeLocation, str]:
    """Return a name for each place, with file and line for lambdas and for names of several."""
    listed = list(dict.fromkeys(places))
    count = Counter(place.name for place in listed)
    return {place: _label(place, keys.get(place), count[place.name] > 1, root) for place in listed}


def _label(place: CodeLocation, key: tuple[str, str] | None, shared: bool, root: str) -> str:
    if key:
        return f'{key[0]}["{key[1]}"]'
    if not shared and not place.name.endswith("<lambda>"):
        return place.name
    return f"{place.name} ({Path(place.file).relative_to(root).as_posix()}:{place.line})"


# ----- Which functions reduce a gradient, and where -----

NARROW = (3,)


def _reductions(uses: Iterable[OpUse], root: str, library: Any) -> tuple[dict[str, int], str]:
    """Return the position of the gradient in the calls of each function that reduces it, by name,
    and the function that adds it to a tensor's gradient for every op, if there is one.

    A function reduces a gradient if one of its arguments has the shape of the output, and its
    result, or the gradient that it changed, has the shape of the smaller operand. A name whose
    calls differ is left out.
    """
    recorder = _ReductionRecorder(root, library)
    for use in uses:
        leaves = {"a": sample(FULL), "b": np.abs(sample(NARROW, 1)) + 1.0}
        try:
            leaf = {name: library.leaf(data) for name, data in leaves.items()}
            output = library.call(use, (), leaf)
            recorder.narrow = leaf["b"]
            sys.setprofile(recorder)
            library.backward(output, np.ones(FULL))
        except BaseException:  # an op that the engine does not have
            continue
        finally:
            sys.setprofile(None)
    places = {name: min(places) for name, places in recorder.places.items() if len(places) == 1}
    adding = recorder.adding.pop() if len(recorder.adding) == 1 else None
    return places, adding.co_name if adding and adding.co_name.isidentifier() else ""


class _ReductionRecorder:
    """A profile function that compares the shapes of arguments and results."""

    def __init__(self, root: str, library: Any) -> None:
        self.root, self.library = root, library
        self.places: dict[str, set[int]] = {}
        self.narrow: Any = None
        """The smaller operand, until its gradient has been seen to change."""
        self.adding: set[CodeType | None] = set()
        """The code that changed it, once for each op; None for code with no wider argument."""
        self._pending: dict[FrameType, set[int]] = {}

    def __call__(self, frame: FrameType, event: str, result: Any) -> None:
        """Record a call of the engine's code, and which of its arguments a result was made of."""
        if not frame.f_code.co_filename.startswith(self.root):
            return
        if event == "call":
            self._pending[frame] = self._wide_arguments(frame)
        elif event == "return":
            wide = self._pending.pop(frame, set())
            if len(wide) == 1 and self._shape(result) == NARROW:
                self.places.setdefault(frame.f_code.co_name, set()).update(wide)
            if self.narrow is not None and self._has_gradient():
                self.adding.add(frame.f_code if len(wide) == 1 else None)
                self.narrow = None

    def _has_gradient(self) -> bool:
        """Whether the smaller operand has a gradient of its own shape."""
        try:
            gradient = self.library.gradient(self.narrow)
        except BaseException:  # not yet
            return False
        return gradient is not None and gradient.shape == NARROW and bool(np.any(gradient))

    def _wide_arguments(self, frame: FrameType) -> set[int]:
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount]
        values = [frame.f_locals.get(name) for name in names]
        first = 1 if values and _is_receiver(values[0], code.co_name) else 0
        return {i - first for i, value in enumerate(values) if self._shape(value) == FULL}

    def _shape(self, value: Any) -> tuple[int, ...] | None:
        try:
            plain = isinstance(value, np.ndarray)
            shape: tuple[int, ...] = np.shape(
                value if plain else self.library.value(self.library.wrap(value))
            )
        except BaseException:  # not a tensor
            return None
        return shape


def _is_receiver(value: Any, name: str) -> bool:
    """Whether the first argument of a function of that name is what it was called on."""
    owner = value if isinstance(value, type) else type(value)
    method = inspect.getattr_static(owner, name, None)
    return callable(attribute_of(owner, name)) and not isinstance(method, staticmethod)
