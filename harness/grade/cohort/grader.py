"""The grader of one submission, and how a process gets it.

A process opens the grader once, from data that can be sent to it, and grades many submissions.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from harness.core.files import cache_folder
from harness.core.versions import version_of
from harness.engines.engine import find_engine
from harness.experiment.exploration import explore
from harness.grade.files import write_files
from harness.grade.grading import grade_suite
from harness.grade.mutants import Mutant
from harness.grade.plan import LIMITS, GradingPlan, plan_grading
from harness.grade.suite import SuiteReport
from harness.pages.catalogue import open_catalogue
from harness.runs.cache import code_digest, open_cache
from harness.sandbox.limits import scratch_folder

COPIES = cache_folder() / "submissions"
"""The folder with the copies being graded, which a submission must not read."""

GradeSuite = Callable[[Path], SuiteReport]
"""Grades the suite in a file or folder.

Raises PageError or UsageError if that is to blame."""


class Grader(NamedTuple):
    """What grades, once it is prepared."""

    grade: GradeSuite
    settings: Mapping[str, str]
    """A value or digest for each thing that a result depends on besides the seed, by its name."""
    prepare: Callable[[], None]
    """Computes what all submissions need, which may take a minute, before any fork."""


class GraderOpening(msgspec.Struct, frozen=True):
    """How a grader is made."""

    function: str
    """`module:function`, called with the arguments and the seed; it returns a Grader."""
    arguments: dict[str, Any]
    """Values that JSON can hold."""
    seed: bytes

    def open(self) -> Grader:
        """Make the grader. Raises what its function raises."""
        module, _, name = self.function.partition(":")
        grader = getattr(import_module(module), name)(self.arguments, self.seed)
        assert isinstance(grader, Grader)
        return grader


def grade_files(
    grade: GradeSuite, name: str, files: Mapping[str, bytes], left_out: Sequence[str] = ()
) -> SuiteReport:
    """Grade a copy of a submission, in a folder that contains nothing else.

    So what is graded is what was hashed, even if its author replaces a file meanwhile. `left_out`
    is not in the copy.
    """
    COPIES.mkdir(parents=True, exist_ok=True)
    with scratch_folder(COPIES) as folder:
        write_files(folder, files)
        report = grade(folder / next(iter(files)).partition("/")[0])
        return msgspec.structs.replace(
            report,
            suite=[name],
            reason=_lasting(report.reason),
            left_out=[*left_out, *report.left_out],
        )


def _lasting(reason: str) -> str:
    """Return a reason without the parts that differ between runs: scratch folders, addresses."""
    return _ADDRESS.sub("0x...", _SCRATCH.sub("", reason))


_SCRATCH = re.compile(r"/[\w/.-]*/breaklab-[\w-]+/")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}")


def rejection(name: str, reason: str, stated: str = "") -> SuiteReport:
    """Return the report of a submission that could not be graded.

    `stated` is the reason as a student may read it.
    """
    return SuiteReport(
        schema=1,
        suite=[name],
        engine="",
        gradable=False,
        reason=reason,
        tests=0,
        breaks=[],
        claims={},
        seconds=0.0,
        stated=stated,
    )


# ----- The grader of test suites, on the breaks of a catalogue -----

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
    allow_copy: bool = True
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
        allow_copy=options.allow_copy,
        partial=True,  # whether that counts is decided when results are shown
    )
    plan = replace(plan, hidden=(*plan.hidden, COPIES, *map(Path, options.hidden)))
    return Grader(partial(grade_suite, plan=plan), settings_of(plan), plan.prepare)


def settings_of(plan: GradingPlan) -> dict[str, str]:
    """Return a value or digest for everything that a result depends on, apart from the seed."""
    libraries = {name: version_of(name, "none") for name in _LIBRARIES}
    return {
        "the breaks": _digest(map(_facts, plan.breaks)),
        "the correct engines": _digest(map(_facts, plan.variants)),
        "the engine": _digest([plan.engine.name, *map("\0".join, plan.engine.sources.items())]),
        "the limits": repr(plan.limits),
        "--allow-conftest": str(plan.allow_conftest),
        "--allow-copy": str(plan.allow_copy),
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
