"""From the name of a foreign engine to an engine that probes can run on.

What the user did not state is found out by a survey, which tries the engine in a child process. Its
result is cached under the engine's source and what the user stated.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import EnvironmentProblem
from harness.core.run import FailureOrigin
from harness.core.vocabulary import Lack, Phase
from harness.engines import SETTINGS
from harness.engines.engine import NOT_MATRICES, Dialect, Engine
from harness.engines.location import Target, locate
from harness.engines.survey import Reducer, Survey, SurveyStep
from harness.engines.survey.forms import FUNCTIONAL
from harness.experiment.conformance import missing_name
from harness.pages.conventions import Conventions
from harness.patch.scope import is_operation
from harness.patch.side import quiet_parse
from harness.runs.cache import RUN_ROOMS, Cache, ResultKind, installed_packages, key_of
from harness.runs.isolated import run_survey


@dataclass(frozen=True)
class Exploration:
    """An engine, and what its survey found."""

    target: Target
    steps: tuple[SurveyStep, ...]
    engine: Engine

    @property
    def name(self) -> str:
        """The class or function under test."""
        return self.steps[-1].name or self.target.engine

    @property
    def reducers(self) -> list[Reducer]:
        """The engine's functions that un-broadcast."""
        return self.steps[-1].reducers

    @property
    def storage(self) -> SurveyStep:
        """What storing does to shapes and dtypes."""
        return self.steps[2]

    @property
    def accumulation(self) -> SurveyStep:
        """How gradients are accumulated."""
        return self.steps[3]


def explore(name: str | Path, cache: Cache, conventions: Conventions) -> Exploration:
    """Find an engine and survey it.

    Raises UsageError and EnvironmentProblem, with what was tried and the line of `harness.toml`
    that would help.
    """
    target = locate(str(name))
    task = Survey(_stated_dialect(target), target.name, str(target.root), dict(target.sources))
    (steps,) = cache.fetch(
        SURVEYS, [key_of(SURVEYS, (task, installed_packages()))], lambda _: [run_survey(task)]
    )
    if steps[-1].failure:
        raise _survey_problem(target, steps)
    dialect = steps[-1].dialect
    engine = Engine(
        name=target.module.partition(".")[0],
        dialect=dialect,
        root=target.root,
        sources=target.sources,
        names=_names(target, steps[-1]),
        gradient_arguments=steps[-1].gradient_arguments,
        foreign=True,
        like=conventions.in_place if _is_in_place(target, steps) else None,
    )
    return Exploration(target, tuple(steps), engine)


def _stated_dialect(target: Target) -> Dialect:
    settings = target.settings
    kind = settings.kind
    return Dialect(
        kind="arrays" if kind == "matrices" else kind,
        refused_ranks=NOT_MATRICES if kind == "matrices" else (),
        module=target.module,
        leaf=settings.leaf or "",
        value=settings.data or "",
        gradient=settings.grad or "",
        backward=settings.backward or "",
        functions=settings.functions,
        names=dict(settings.names),
    )


def _is_repeatable(steps: list[SurveyStep]) -> bool:
    return steps[-1].failure is None and not steps[-1].other_files


SURVEYS: ResultKind[list[SurveyStep]] = ResultKind(
    "survey", list[SurveyStep], RUN_ROOMS, _is_repeatable
)


def _is_in_place(target: Target, steps: Sequence[SurveyStep]) -> bool:
    """Whether gradients are added into an existing buffer, so that shapes have to agree."""
    if target.settings.accumulation:
        return target.settings.accumulation == "in place"
    accumulation, seen = steps[3], steps[-1].unsummed.get("leaf")
    if seen:
        return seen == "crash"
    if accumulation.initial_gradient == "zeros" and accumulation.second_backward == "in place":
        return True
    return accumulation.initial_gradient == "zeros" and adds_in_place(target.sources)


def _names(target: Target, step: SurveyStep) -> dict[str, str | tuple[str, ...]]:
    """Return the engine's names for ours: the stated ones, and those that the survey found."""
    names = dict(target.settings.names)
    gradient, reducers = re.search(r"\bt\.(\w+)", step.dialect.gradient), step.reducers
    if step.dialect.kind != "functional":
        stored = gradient if step.dialect.stores_gradients else None
        theirs = {"Tensor": step.name or "Tensor", "grad": stored[1] if stored else "grad"}
        names = {ours: name for ours, name in theirs.items() if name != ours} | names
    for op, key in step.keys.items():
        if key.isidentifier() and not is_operation(key, op):
            names.setdefault(op, key)
    if step.accumulator:
        names.setdefault("accumulate", step.accumulator)
    if "unbroadcast" not in names:
        used = [reducer for reducer in reducers if reducer.callers] or list(reducers)
        last = {reducer.name.rpartition(".")[2] for reducer in used} or likely_names(target.sources)
        if found := spellings(target.sources, last):
            names["unbroadcast"] = found[0] if len(found) == 1 else found
    return names


def _survey_problem(target: Target, steps: Sequence[SurveyStep]) -> EnvironmentProblem:
    """Return the error of a failed survey: what was tried, and the line that would help."""
    last = steps[-1]
    failure = last.failure
    assert failure is not None
    if failure.origin and failure.origin.lack is Lack.NUMPY_NAME:
        return _missing_name_problem(target, failure.origin)
    reason = failure.message if failure.type == "SurveyFailed" else str(failure)
    attempts = "".join(f"\n    {attempt}" for attempt in last.attempts[:6])
    attempts = f"\n  tried:{attempts}" if attempts else ""
    place = target.engine.rpartition(":")[0] or target.engine
    remedies = {
        Phase.IMPORT: _import_remedy(target, failure.type, failure.message),
        Phase.CLASS: _setting(
            f'name the tensor class: `target = "{place}:{last.name or "Tensor"}"`, '
            f"or one of the functions {', '.join(FUNCTIONAL)}"
        ),
        Phase.TENSORS: _setting(_expressions_remedy(last)),
    }
    raiser = failure.origin.raiser if failure.origin else "engine"
    ours = raiser in ("adapter", "probe") and failure.type != "SurveyFailed"
    other = (
        "this is a limitation of breaklab, not of the engine: please report it" if ours else _FIX
    )
    remedy = remedies.get(last.step, other)
    problem = f"the engine `{target.engine}` cannot be used: {reason}{attempts}"
    return EnvironmentProblem(problem, remedy)


def _expressions_remedy(step: SurveyStep) -> str:
    """Return the settings that were not found, with those that were."""
    found, name = step.dialect, step.name or "Tensor"
    if name in FUNCTIONAL and not found.value:
        return (
            f'name the tensor class, as in `target = "engine.py:Tensor"`: `{name}` is not called '
            f"as `{name}(function)(data)`, with the value and the VJP as its results"
        )
    if not found.value:
        return (
            f'write `leaf = "{name}(data)"` with all that a leaf needs, such as '
            '`requires_grad=True`, and `data = "t.data"`, which reads its data'
        )
    return (
        "write the expression that runs the backward pass from an output `t`, as in "
        '`backward = "t.backward(cotangent)"`, in `backward = "gradients(t, leaves)"` if a '
        'function returns the gradients, or in `backward = "[walk(end, visit) for end in '
        '[t * Constant(cotangent)] for visit in (Clear(), Pull())]"` if it takes several calls. '
        f"`leaf = {_text(found.leaf)}` and `data = {_text(found.value)}`, which work, may be left "
        'out; write `grad = "t.grad"` only if it is not found, and `functions = ["its_module"]` if '
        "a function is in another file"
    )


def _text(expression: str) -> str:
    return f"'{expression}'" if '"' in expression else f'"{expression}"'


_FIX = "fix the engine: it fails on valid input without any break"


def _missing_name_problem(target: Target, origin: FailureOrigin) -> EnvironmentProblem:
    """Return the error of an engine that uses a name which NumPy no longer has."""
    name, place = origin.missing.rpartition(".")[2], f"{origin.file}:{origin.line}"
    change = f"write `{name}` in its place" if hasattr(builtins, name) else "use its new name"
    return EnvironmentProblem(
        f"the engine `{target.engine}` cannot be used: {missing_name(origin)}",
        f"{change} in {place}; an older NumPy is not possible, since breaklab needs NumPy 2",
    )


def _setting(remedy: str) -> str:
    return f"in [engine] of {SETTINGS}, {remedy}"


def _import_remedy(target: Target, kind: str, message: str) -> str:
    if kind == "ModuleNotFoundError":
        missing = message.rpartition("'")[0].rpartition("'")[2]
        if any(f"{name}.".startswith(f"{missing}.") for name in target.settings.functions):
            return _setting(
                f"correct `functions`: {target.root} has no module `{missing}`, "
                "and none is installed"
            )
        top = missing.partition(".")[0]
        if missing != top:  # the package is installed, but one of its modules is missing
            place = (
                str(target.root)
                if top == target.module.partition(".")[0]
                else "the installed packages"
            )
            return f"`{missing}` is not in {place}: the engine needs another version of `{top}`"
        return (
            f"install {missing or 'it'} into this environment; or, if it is a file of the engine, "
            'name its folder: `root = "src"`'
        )
    return f"`python -c 'import {target.module}'` in {target.root} must work first"


# ----- Names and aliases of functions in the source -----

LIKELY = re.compile(r"_*(un_?broadcast|unbcast|debroadcast|sum_to|reduce_to|reduce_broadcast)\w*")
"""Usual names of a function that un-broadcasts."""


def spellings(sources: Mapping[str, str], names: set[str]) -> tuple[str, ...]:
    """Return the names by which these functions are called: `Tensor.sum_to`, `sum_to`, an alias."""
    callees = set()
    for tree in _trees(sources):
        aliases = names | set(_aliases(tree, names))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                callee = ast.unparse(node.func)
                parts = callee.split(".")
                if parts[-1] in aliases and all(part.isidentifier() for part in parts):
                    callees.add(callee)
    return tuple(sorted(callees))


def likely_names(sources: Mapping[str, str]) -> set[str]:
    """Return the functions whose names suggest that they un-broadcast."""
    return {
        node.name
        for node in _nodes(sources)
        if isinstance(node, ast.FunctionDef) and LIKELY.fullmatch(node.name)
    }


def adds_in_place(sources: Mapping[str, str]) -> bool:
    """Whether the source applies `+=` to an attribute with `grad` in its name."""
    return any(
        isinstance(node, ast.AugAssign)
        and isinstance(node.op, ast.Add)
        and isinstance(node.target, ast.Attribute)
        and "grad" in node.target.attr
        for node in _nodes(sources)
    )


def _aliases(tree: ast.Module, names: set[str]) -> Iterator[str]:
    """Yield other names, as in `from utils import sum_to as shrink` or `shrink = utils.sum_to`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (a.asname for a in node.names if a.name in names and a.asname)
        elif isinstance(node, ast.Assign):
            value = node.value
            if (isinstance(value, ast.Name) and value.id in names) or (
                isinstance(value, ast.Attribute) and value.attr in names
            ):
                yield from (t.id for t in node.targets if isinstance(t, ast.Name))


def _nodes(sources: Mapping[str, str]) -> Iterator[ast.AST]:
    return (node for tree in _trees(sources) for node in ast.walk(tree))


def _trees(sources: Mapping[str, str]) -> Iterator[ast.Module]:
    for text in sources.values():
        try:
            yield quiet_parse(text)
        except SyntaxError:
            continue
