"""An engine that is not ours, from its name to one that probes can be put to.

What the user did not state is found out by trying the engine in a child process. The result of such
a survey is cached under the engine's source and what was stated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import EnvironmentProblem
from harness.engines.aliases import adds_in_place, likely_names, spellings
from harness.engines.engine import Dialect, Engine
from harness.engines.location import Target, locate
from harness.engines.settings import SETTINGS
from harness.engines.survey import Reducer, Survey, SurveyStep
from harness.engines.survey.forms import FUNCTIONAL
from harness.pages.conventions import Conventions
from harness.runs.cache import RUN_ROOMS, Cache, Kind, key_of
from harness.runs.host import run_survey


@dataclass(frozen=True)
class Found:
    """An engine, and what trying it showed."""

    target: Target
    steps: tuple[SurveyStep, ...]
    engine: Engine

    @property
    def name(self) -> str:
        """The class or function that probes are put to."""
        return self.steps[-1].name or self.target.engine

    @property
    def reducers(self) -> list[Reducer]:
        """Its functions that un-broadcast."""
        return self.steps[-1].reducers

    @property
    def storage(self) -> SurveyStep:
        """What storing does to shapes and dtypes."""
        return self.steps[2]

    @property
    def accumulation(self) -> SurveyStep:
        """How gradients are added up."""
        return self.steps[3]


def explore(said: str | Path, cache: Cache, conventions: Conventions) -> Found:
    """Find an engine and try it.

    Raises UsageError and EnvironmentProblem, with what was tried and the line of `harness.toml`
    that would help.
    """
    target = locate(str(said))
    task = Survey(_said_dialect(target), target.name, str(target.root), dict(target.sources))
    (steps,) = cache.fetch(SURVEYS, [key_of(SURVEYS, task)], lambda _: [run_survey(task)])
    if steps[-1].failure:
        raise _trouble(target, steps)
    dialect = steps[-1].dialect
    engine = Engine(
        name=target.module.partition(".")[0],
        dialect=dialect,
        root=target.root,
        sources=target.sources,
        names=_names(target, steps[-1]),
        foreign=True,
        like=conventions.in_place if _is_in_place(target, steps) else None,
    )
    return Found(target, tuple(steps), engine)


def _said_dialect(target: Target) -> Dialect:
    said = target.settings
    return Dialect(
        module=target.module,
        leaf=said.leaf or "",
        value=said.data or "",
        gradient=said.grad or "",
        backward=said.backward or "",
        functions=said.functions,
        names=dict(said.names),
    )


def _succeeded(steps: list[SurveyStep]) -> bool:
    return steps[-1].failure is None


SURVEYS: Kind[list[SurveyStep]] = Kind("survey", list[SurveyStep], RUN_ROOMS, _succeeded)


def _is_in_place(target: Target, steps: Sequence[SurveyStep]) -> bool:
    """Whether a gradient has to fit into a buffer that is already there."""
    if target.settings.accumulation:
        return target.settings.accumulation == "in place"
    accumulation = steps[3]
    if accumulation.initial_gradient == "zeros" and accumulation.second_backward == "in place":
        return True
    return accumulation.initial_gradient == "zeros" and adds_in_place(target.sources)


def _names(target: Target, found: SurveyStep) -> dict[str, str | tuple[str, ...]]:
    """What was said; and what the class, its gradient and what un-broadcasts are called."""
    names = dict(target.settings.names)
    place, reducers = re.search(r"\bt\.(\w+)", found.dialect.gradient), found.reducers
    if found.dialect.kind != "functional":
        theirs = {"Tensor": found.name or "Tensor", "grad": place[1] if place else "grad"}
        names = {ours: name for ours, name in theirs.items() if name != ours} | names
    if "unbroadcast" not in names:
        used = [each for each in reducers if each.callers] or list(reducers)
        last = {each.name.rpartition(".")[2] for each in used} or likely_names(target.sources)
        if spelled := spellings(target.sources, last):
            names["unbroadcast"] = spelled[0] if len(spelled) == 1 else spelled
    return names


def _trouble(target: Target, steps: Sequence[SurveyStep]) -> EnvironmentProblem:
    """One message: what was tried, and the line that would help."""
    last = steps[-1]
    failure = last.failure
    assert failure is not None
    said = failure.message if failure.type == "SurveyFailed" else str(failure)
    tried = "".join(f"\n    {each}" for each in last.attempts[:6])
    tried = f"\n  tried:{tried}" if tried else ""
    remedies = {
        "the import": _import_remedy(target, failure.type, failure.message),
        "the class": f'name the class of tensors: `target = "{_place(target)}:Tensor"`, '
        f"or one of the functions {', '.join(FUNCTIONAL)}",
        "the tensors": 'say in it how: `leaf = "Tensor(data, requires_grad=True)"`, '
        '`data = "t.data"`, `grad = "t.grad"`, `backward = "t.backward(cotangent)"`',
    }
    remedy = remedies.get(last.step, "mend the engine: it fails on legal input, unbroken")
    problem = f"the engine `{target.engine}` cannot be tried: {said}{tried}"
    return EnvironmentProblem(problem, _line(remedy))


def _line(remedy: str) -> str:
    return (
        f"in [engine] of {SETTINGS}, {remedy}" if "`" in remedy[:60] and "=" in remedy else remedy
    )


def _import_remedy(target: Target, kind: str, message: str) -> str:
    if kind == "ModuleNotFoundError":
        missing = message.rpartition("'")[0].rpartition("'")[2]
        top = missing.partition(".")[0]
        if missing != top:  # the package is there, a module of it is not
            place = (
                str(target.root) if top == target.module.partition(".")[0] else "what is installed"
            )
            return f"`{missing}` is not in {place}: the engine needs another version of `{top}`"
        return (
            f"install {missing or 'it'} into this environment; or say from where, if it is a file "
            'of the engine: `root = "src"`'
        )
    return f"`python -c 'import {target.module}'` in {target.root} has to work first"


def _place(target: Target) -> str:
    return target.engine.rpartition(":")[0] or target.engine
