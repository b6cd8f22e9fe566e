"""An exercise: a suite of tests that a break passes; the probe that kills it is yet to be written.

The suite is a `python` block of plain test functions, `def test_...(lib)`. They run in the child as
probes do, on the clean engine and on broken ones, so that of each test it is known how far the
fault came in it. A learner's probe is judged by the lab: if it does not kill, the stage says why.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from harness.answer_key.stage import infected
from harness.core.errors import PageError
from harness.core.report import EngineReport
from harness.core.run import Run
from harness.core.vocabulary import Stage
from harness.engines.engine import Engine
from harness.experiment.baseline import Bench
from harness.experiment.lab import Experiment
from harness.grade.submission import Attack, Soundness, attack, put_break, refuse_twins, try_clean
from harness.pages.catalogue import Catalogue
from harness.pages.page import Page
from harness.pages.probe import Probe, parse_python, plain, read_probes

HIDDEN = ("Answer", "Lesson")
"""Sections that a learner sees when the break is dead, or on request."""


class Fate(msgspec.Struct, frozen=True):
    """What became of a test on a broken engine, and where the fault was lost if it passes."""

    passes: bool
    stage: Stage
    why: str


class SuiteTest(msgspec.Struct, frozen=True):
    """A test of the suite: how it fails on the unbroken engine (None: it passes), and elsewhere."""

    test: str
    failure: str | None
    on: dict[str, Fate]
    """By break: those that have to pass, and those that the suite kills."""


class ExerciseReport(msgspec.Struct, frozen=True):
    """Schema 1: keys may be added, never renamed."""

    schema: int
    exercise: str
    title: str
    engine: EngineReport
    breaks: list[str]
    kills: list[str]
    suite: list[SuiteTest]
    agrees: bool
    """The suite passes and fails where the page says."""
    probes: list[Soundness]
    """Of the learner's file; empty where there is none."""
    attacks: list[Attack]
    """One a break; empty where a probe is not sound."""
    killed: bool | None
    """None where no file was given."""
    seconds: float


def run_exercise(
    page: Page,
    catalogue: Catalogue,
    engine: Engine,
    bench: Bench,
    probes: Sequence[Probe] = (),
) -> ExerciseReport:
    """Run the suite, and judge the learner's probes if there are any.

    Raises PageError for a page that cannot be used, UsageError for a break that does not exist.
    """
    start = time.perf_counter()
    suite = run_suite(page, catalogue, engine, bench)
    sound = try_clean(probes, engine, bench)
    attacks = []
    if sound and not any(one.problems for one in sound):
        attacks = [attack(one, probes, catalogue, engine, bench) for one in page.front.breaks]
    return ExerciseReport(
        schema=1,
        exercise=page.id,
        title=page.title,
        engine=EngineReport(engine.name, None),
        breaks=list(page.front.breaks),
        kills=list(page.front.kills),
        suite=suite,
        agrees=not any(test.failure for test in suite)
        and all(passes(suite, one) for one in page.front.breaks)
        and not any(passes(suite, one) for one in page.front.kills),
        probes=sound,
        attacks=attacks,
        killed=bool(attacks and all(one.killed_by for one in attacks)) if probes else None,
        seconds=round(time.perf_counter() - start, 3),
    )


def passes(suite: Sequence[SuiteTest], break_id: str) -> bool:
    """Whether a broken engine passes the suite."""
    return all(test.on[break_id].passes for test in suite)


# ----- The suite -----


def read_suite(page: Page) -> tuple[Probe, ...]:
    """The tests of the page's section `The suite`.

    Raises PageError for text that is no Python, and for functions that are no tests.
    """
    tests = tuple(
        test
        for fence in page.fences
        if fence.section == "The suite" and fence.info[:1] == ("python",)
        for test in _read_tests(fence.text, page.path, fence.line)
    )
    refuse_twins(tests)
    if not tests:
        remedy = "write `def test_...(lib):` functions in a ```python block below `## The suite`"
        raise PageError(page.path, page.body_line, "a suite without a test", remedy)
    return tests


def read_answer(page: Page) -> tuple[Probe, ...]:
    """The probes of the page's section `Answer`."""
    return tuple(
        probe
        for fence in page.fences
        if fence.section == "Answer" and fence.info[:1] == ("python",)
        for probe in read_probes(fence.text, page.path, fence.line)
    )


def _read_tests(text: str, path: str, line: int) -> Iterator[Probe]:
    for node in parse_python(text, path, line, "suite").body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        arguments = ast.unparse(node.args)
        if not node.name.startswith("test_") or arguments != "lib":
            problem = f"`def {node.name}({arguments})` is no test"
            remedy = "write `def test_...(lib):`; helpers start with an underscore"
            raise PageError(path, line + node.lineno - 1, problem, remedy)
        doc = plain(ast.get_docstring(node) or "")
        yield Probe(node.name, doc, "test", (), node.name, text, path, line, takes_lib=True)


def run_suite(page: Page, catalogue: Catalogue, engine: Engine, bench: Bench) -> list[SuiteTest]:
    """Every test on the engine, and on it with each break of the page.

    Raises PageError, and UsageError for a break that does not exist.
    """
    tests = read_suite(page)
    clean = bench.clean(engine, tests)
    on = {
        one: fates(put_break(one, catalogue, engine, tests), bench)
        for one in (*page.front.breaks, *page.front.kills)
    }
    return [
        SuiteTest(
            test.name,
            str(failure) if (failure := clean[test.name, None].run.failure) else None,
            {one: told[test.name] for one, told in on.items()},
        )
        for test in tests
    ]


def fates(experiment: Experiment, bench: Bench) -> dict[str, Fate]:
    """What becomes of each test."""
    runs = bench.broken(experiment.clean, experiment.broken, experiment.probes)
    unnoticed = {run.probe for run in runs if run.reached and not run.failure}
    tests = [test for test in experiment.probes if test.name in unnoticed]
    trails = bench.trails(experiment.unpatched, tests)
    return {run.probe: _fate(run, trails.get((run.probe, None), {})) for run in runs}


def _fate(run: Run, trail: Mapping[str, int]) -> Fate:
    if run.failure:
        return Fate(False, "revealed", str(run.failure))
    if not run.reached:
        return Fate(True, "not-reached", "it never runs the changed code")
    if not infected(run.trail, trail):
        return Fate(True, "not-infected", "it runs the changed code, and here both formulas agree")
    return Fate(True, "not-revealed", "wrong inside, and nothing that it asserts is")


# ----- What a learner does not see yet -----


def without_answer(page: Page, original: Page) -> Page:
    """The page without the sections that give the answer away.

    They are told by their place in the original, whose headings a translation has in other words.
    """
    start, *sections = re.split(r"^(?=## )", page.body, flags=re.M)
    shown = zip(sections, original.headings, strict=False)
    kept = [section for section, heading in shown if heading not in HIDDEN]
    return replace(page, body="".join([start, *kept]))
