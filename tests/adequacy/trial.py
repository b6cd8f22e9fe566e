"""What becomes of a mutant: whether it is wrong, which probes see it, whether a diagnostic does."""

from __future__ import annotations

import contextlib
import importlib
import random
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.random import mtrand

import minigrad
from harness.answer_key.outcome import judge
from harness.core.run import Measured, Run
from harness.core.vocabulary import Alarm, Loss
from harness.diagnostics import DIAGNOSTICS, Observation, evaluate
from harness.engines.engine import find_engine
from harness.engines.library import Library
from harness.experiment.baseline import Baseline
from harness.pages.probe import Probe
from harness.runs.cache import open_cache
from harness.runs.observer import observe
from harness.runs.protocol import SEED
from harness.runs.trial import Trial
from tests.adequacy.mutants import Rule
from tests.adequacy.truth import Answer, Case, answer, wrong_cases
from tests.strength.mutants import Mutant

ROOT = Path(__file__).parents[2]

SECONDS = 120
"""The time limit of a mutant. No rule has a loop that a mutant could make endless."""


@dataclass(frozen=True)
class Result:
    """What was found out about a mutant."""

    rule: Rule
    mutant: Mutant
    wrong: bool
    """Whether a case of the truth goes wrong; else the mutant is equivalent."""
    probes: tuple[str, ...] = ()
    """The shared probes whose outcome is a crash or a silent corruption."""
    alarm: str = ""
    """The first alarm on one of them, as `probe: diagnostic`."""


class Bench:
    """The clean engine's results: everything that does not depend on the mutant."""

    def __init__(self, probes: Sequence[Probe], cases: Sequence[Case]) -> None:
        engine = find_engine()
        self._library = Library(engine.dialect, minigrad)
        self._probes = {probe.name: probe for probe in probes}
        self._keys = Baseline(open_cache()).clean(engine, probes)
        # Run again in this process, where BLAS may have other threads, and round in another way.
        self._clean = {
            (name, loss): replace(
                self._observe(self._probes[name], loss), measured=key.run.measured
            )
            for (name, loss), key in self._keys.items()
        }
        kinds = ("gradient", "module", "steps")  # the quick ones first
        self._reaching: dict[str, list[Probe]] = {}
        for probe in sorted(probes, key=lambda probe: kinds.index(probe.kind)):
            for function in _called_by(partial(self._observe, probe, probe.losses[0])):
                self._reaching.setdefault(function, []).append(probe)
        self._answers: dict[str, list[Answer]] = {}
        for case in cases:
            item = answer(case)
            for function in _called_by(item.is_right):
                self._answers.setdefault(function, []).append(item)

    def examine(self, rule: Rule, mutant: Mutant, *, every: bool = False) -> Result:
        """Put a mutant into minigrad, in this process and for good, and see what happens.

        Trainings are run only if no other probe differs, or with `every`.
        """
        signal.alarm(SECONDS)
        swap(rule, mutant)
        wrong = bool(wrong_cases(self._answers.get(rule.place, ())))
        probes: list[Probe] = []
        for probe in self._reaching.get(rule.place, ()):
            if probe.kind == "steps" and probes and not every:
                break
            if any(self._differs(probe, loss) for loss in probe.losses):
                probes.append(probe)
        alarm = next((text for probe in probes for text in self._alarms(probe)), "")
        return Result(rule, mutant, wrong, tuple(probe.name for probe in probes), alarm)

    def _observe(self, probe: Probe, loss: Loss | None) -> Run:
        """Run a probe on minigrad as it is now."""
        with _seeded(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return copy_context().run(observe, Trial(self._library, probe), loss)

    def _differs(self, probe: Probe, loss: Loss | None) -> bool:
        run = replace(self._observe(probe, loss), reached=[0])
        others = [self._clean[probe.name, other] for other in probe.losses if other != loss]
        outcome = judge(run, self._clean[probe.name, loss], others).outcome
        return outcome in ("silent-corruption", "crash")

    def _alarms(self, probe: Probe) -> Iterator[str]:
        """The alarms that the clean engine does not raise."""
        for loss in probe.losses:
            key, run = self._keys[probe.name, loss], self._observe(probe, loss)
            for item in DIAGNOSTICS:
                if item.measure and not run.failure and probe.kind in item.kinds:
                    measured = self._measure(item.measure, probe, run)
                    run = replace(run, measured={**run.measured, item.name: measured})
                verdict = evaluate(item, Observation(probe, run, key.oracles))
                if isinstance(verdict, Alarm) and item.name not in key.alarms:
                    yield f"{probe.name}: {item.name}"

    def _measure(
        self, measure: Callable[[Trial, Run], Measured], probe: Probe, run: Run
    ) -> Measured:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return measure(Trial(self._library, probe), run)
            except Exception as error:
                return Measured(failure=type(error).__name__)


def swap(rule: Rule, mutant: Mutant) -> None:
    """Replace the code of the rule's function in minigrad by the mutant's."""
    module = importlib.import_module(rule.path.removesuffix(".py").replace("/", "."))
    source = mutant.apply((ROOT / rule.path).read_bytes())
    code = compile(source, str(ROOT / rule.path), "exec")
    owner: Any = module
    for name in rule.function.split("."):
        owner = getattr(owner, name)
        code = next(
            part for part in code.co_consts if isinstance(part, CodeType) and part.co_name == name
        )
    owner.__code__ = code


@contextlib.contextmanager
def _seeded() -> Iterator[None]:
    """Seed the global generators as a child of the harness does, and restore them afterwards."""
    state, generator = random.getstate(), mtrand.get_bit_generator()
    random.seed(SEED)
    mtrand.set_bit_generator(np.random.PCG64(SEED))
    try:
        yield
    finally:
        random.setstate(state)
        mtrand.set_bit_generator(generator)


def _called_by(function: Callable[[], object]) -> set[str]:
    """Return the places of minigrad's top-level functions that a function calls."""
    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            codes.add(frame.f_code)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return {
        f"{Path(code.co_filename).relative_to(ROOT).as_posix()}:{code.co_qualname.split('.')[0]}"
        for code in codes
        if Path(code.co_filename).is_relative_to(ROOT / "minigrad")
    }
