"""Which functions of an engine un-broadcast, who calls them, and whether they are right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np

from harness.engines.adapter.adapters import open_library
from harness.engines.call_recorder import CallRecorder
from harness.engines.survey import Reducer, Survey, SurveyStep
from harness.engines.survey.arguments import gradient_arguments
from harness.engines.survey.attempts import Attempts
from harness.engines.survey.numbers import same, sample
from harness.engines.survey.places import Place, keys_of, labels, modules_of, place_of
from harness.engines.survey.reducing import (
    ROWS,
    Flaw,
    Form,
    Function,
    flaws_of,
    forms_of,
    functions_of,
    mentions_sums,
    summed,
    working_form,
)
from harness.engines.survey.unsummed import FULL, Keeper, row_of, unsummed

OPS: dict[str, Callable[..., Any]] = {
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

Calls = list[tuple[Place, Place | None]]
"""The engine's code that ran for an op, forward and backward, each with its caller."""


def find_reducers(
    step: SurveyStep, task: Survey, module: ModuleType, attempts: Attempts
) -> SurveyStep:
    """Return the step, completed with the functions that un-broadcast, and their callers."""
    library = open_library(step.dialect, module)
    modules = modules_of(task)
    calls = {
        op: attempts.apart(op, partial(_calls_of, use, task, library), Calls) or []
        for op, use in OPS.items()
    }
    keys = keys_of(modules)
    places = (place for pairs in calls.values() for pair in pairs for place in pair if place)
    names = labels(places, keys, task.root)
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
    seen = partial(gradient_arguments, OPS.values(), task.root, library)
    return msgspec.structs.replace(
        step,
        gradient_arguments=attempts.apart("gradient", seen, dict[str, int]) or {},
        reducers=sorted(reducers, key=lambda r: (not r.callers, r.file, r.line)),
        ops={op: sorted({names[place] for place in places}) for op, places in only.items()},
        keys={op: keys[place][1] for op, places in only.items() for place in places & set(keys)},
        unsummed=unsummed(library, OPS, keepers, attempts) if stored else {},
    )


# ----- Calls -----


def _calls_of(use: Callable[..., Any], task: Survey, library: Any) -> Calls:
    files = {str(Path(task.root) / file) for file in task.sources}
    values = {"a": sample(FULL), "b": np.abs(sample(row_of(library), 1)) + 1.0}
    leaves = {name: library.leaf(data) for name, data in values.items()}
    recorder = CallRecorder(files)
    recorder.start()
    try:
        output = library.call(use, (), leaves)
        library.backward(output, np.ones(FULL))
    finally:
        calls = recorder.stop() or []
    pairs = (
        (place_of(code), place_of(caller) if caller and caller.co_filename in files else None)
        for code, caller in calls
    )
    return list(dict.fromkeys(pairs))


def _callers(function: Function, calls: Mapping[str, Calls]) -> dict[str, set[Place]]:
    """The places that called a function in the passes of each op."""
    code = function.code
    place = None if code is None else place_of(code)
    callers = {
        op: {by for called, by in pairs if called == place and by} for op, pairs in calls.items()
    }
    return {op: places for op, places in callers.items() if places}


def _only_by(calls: Mapping[str, Calls]) -> dict[str, set[Place]]:
    """The places that run for one op only, by op."""
    ran = {op: {place for place, _ in pairs} for op, pairs in calls.items()}
    return {
        op: places - set().union(*(others for other, others in ran.items() if other != op))
        for op, places in ran.items()
    }


# ----- Functions that sum -----


def _reducing(
    modules: Iterable[ModuleType], task: Survey, library: Any, attempts: Attempts
) -> Iterable[tuple[Function, Form, int]]:
    """Yield each function that sums ones((4, 3)) to a row, with how it is called."""
    files = {str(Path(task.root) / file) for file in task.sources}
    visited = set()
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
    function: Function,
    row: int,
    callers: Mapping[str, set[Place]],
    names: Mapping[Place, str],
    calls: Mapping[str, Calls],
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
    callers: Mapping[str, set[Place]], names: Mapping[Place, str], calls: Mapping[str, Calls]
) -> str:
    """Return the only place from which all ops call a function; "" if there is no such place."""
    places = set().union(*callers.values())
    every = {op for op, pairs in calls.items() if pairs}
    is_central = len(places) == 1 and len(callers) > 1 and set(callers) == every
    return names[places.pop()] if is_central else ""


# ----- Flaws -----


def _flaws(form: Form, callers: Iterable[str], library: Any, attempts: Attempts) -> list[str]:
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
