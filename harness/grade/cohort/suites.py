"""The grader of a cohort: test suites on the breaks of a catalogue."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from harness.engines.engine import find_engine
from harness.experiment.exploration import explore
from harness.grade.cohort.grader import COPIES, Grader, GraderOpening
from harness.grade.grading import grade_suite
from harness.grade.mutants import Mutant
from harness.grade.plan import LIMITS, GradingPlan, plan_grading
from harness.pages.catalogue import open_catalogue
from harness.runs.cache import code_digest, open_cache

_ROOMS = ("core", "patch", "sandbox", "engines", "pages", "runs", "experiment", "grade")
_LIBRARIES = ("numpy", "pytest", "hypothesis")


class SuiteOptions(msgspec.Struct, frozen=True):
    """How suites are graded, apart from the secret seed."""

    breaks: list[str] = []
    """Folders with more pages."""
    engine: str | None = None
    """None for minigrad."""
    selection: str = "all"
    correct: list[str] | None = None
    """The ids of the variants that a suite must pass; None for all that are required."""
    allow_conftest: bool = True
    limit: int = int(LIMITS.cpu_seconds)
    """Seconds of processor time for one run."""
    cached: bool = True
    hidden: list[str] = []
    """Folders that no submission may read, besides those of the pages."""

    def opening(self, seed: bytes) -> GraderOpening:
        """Return how a process makes the grader."""
        return GraderOpening(f"{__name__}:open_suite_grader", msgspec.to_builtins(self), seed)


def open_suite_grader(arguments: Mapping[str, Any], seed: bytes) -> Grader:
    """Return the grader for these options.

    Raises UsageError for unknown breaks, and what `explore` raises for an engine.
    """
    options = msgspec.convert(arguments, SuiteOptions)
    catalogue, cache = open_catalogue(list(map(Path, options.breaks))), open_cache(options.cached)
    engine = find_engine()
    if options.engine is not None:
        engine = explore(options.engine, cache, catalogue.conventions).engine
    plan = plan_grading(
        catalogue,
        engine,
        cache,
        selection=options.selection,
        correct=options.correct,
        seed=seed,
        limits=replace(LIMITS, cpu_seconds=options.limit, seconds=3.0 * options.limit),
        allow_conftest=options.allow_conftest,
    )
    plan = replace(plan, hidden=(*plan.hidden, COPIES, *map(Path, options.hidden)))
    return Grader(partial(grade_suite, plan=plan), settings_of(plan), plan.prepare)


def settings_of(plan: GradingPlan) -> dict[str, str]:
    """Return a value or digest for everything that a result depends on, apart from the seed."""
    libraries = {name: _version(name) for name in _LIBRARIES}
    return {
        "the breaks": _digest(map(_facts, plan.breaks)),
        "the correct engines": _digest(map(_facts, plan.variants)),
        "the engine": _digest([plan.engine.name, *map("\0".join, plan.engine.sources.items())]),
        "the limits": repr(plan.limits),
        "--allow-conftest": str(plan.allow_conftest),
        "the stages": str(plan.stages),
        "breaklab": code_digest(_ROOMS),
        "Python": platform.python_version(),
        **libraries,
    }


def _facts(mutant: Mutant) -> str:
    front = mutant.page.front
    text = "\0".join(f"{file}\0{text}" for file, text in sorted(mutant.files.texts.items()))
    return f"{front.id}\0{front.family}\0{front.level}\0{text}"


def _digest(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(len(text.encode()).to_bytes(8, "big") + text.encode())
    return digest.hexdigest()


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "none"
