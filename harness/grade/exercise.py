"""An exercise: a suite of tests that a break passes; the learner writes the probe that kills it.

The suite is a `python` block of plain test functions, `def test_...(lib)`. They run in the child
like probes, on the clean engine and on broken ones, so the report says how far the fault got in
each test. The lab judges a learner's probe; if it does not kill the break, the stage says why.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from harness.answer_key.outcome import infected
from harness.core.errors import PageError
from harness.core.message import Message, message
from harness.core.report import EngineReport
from harness.core.run import Digest, Run
from harness.core.vocabulary import Stage
from harness.experiment.baseline import Baseline
from harness.experiment.context import Context
from harness.experiment.patching import Experiment
from harness.grade.submission import (
    Attack,
    Soundness,
    attack_break,
    check_soundness,
    prepare_break,
    refuse_duplicates,
)
from harness.pages.front_matter import Exercise
from harness.pages.page import Page
from harness.pages.probe import Probe, parse_python, plain, read_probes

HIDDEN = ("Answer", "Lesson")
"""Sections that are hidden until the break is killed, or on request."""


class SuiteFate(msgspec.Struct, frozen=True):
    """Whether a test passes on a broken engine, and where the fault was lost if it does."""

    passes: bool
    stage: Stage
    why: Message
    by_assertion: bool = False
    """Whether it fails by an assertion of its own, rather than by an exception of the engine."""


class SuiteTest(msgspec.Struct, frozen=True):
    """A test of the suite: its failure on the unbroken engine (None: it passes), and its fates."""

    test: str
    failure: Message | None
    on: dict[str, SuiteFate]
    """The fate by break: of those that must pass the suite, and of those that it kills."""


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
    """Whether the suite passes and fails where the page says."""
    probes: list[Soundness]
    """The soundness of the learner's probes; empty if there are none."""
    attacks: list[Attack]
    """One per break; empty if a probe is not sound."""
    killed: bool | None
    """None if there is no file."""
    seconds: float


def run_exercise(page: Page, context: Context, probes: Sequence[Probe] = ()) -> ExerciseReport:
    """Run the suite, and judge the learner's probes if there are any.

    Raises PageError for a page that cannot be used, UsageError for a page that is not an exercise
    and for a break that does not exist.
    """
    start, front = time.perf_counter(), page.front_as(Exercise)
    suite = run_suite(page, context)
    soundness = check_soundness(probes, context)
    attacks = []
    if soundness and not any(result.problems for result in soundness):
        attacks = [attack_break(name, probes, context) for name in front.breaks]
    return ExerciseReport(
        schema=1,
        exercise=page.id,
        title=page.title,
        engine=EngineReport(context.engine.name, None),
        breaks=list(front.breaks),
        kills=list(front.kills),
        suite=suite,
        agrees=not any(test.failure for test in suite)
        and all(passes(suite, name) for name in front.breaks)
        and not any(passes(suite, name) for name in front.kills),
        probes=soundness,
        attacks=attacks,
        killed=bool(attacks and all(result.killed_by for result in attacks)) if probes else None,
        seconds=round(time.perf_counter() - start, 3),
    )


def passes(suite: Sequence[SuiteTest], break_id: str) -> bool:
    """Whether a broken engine passes the suite."""
    return all(test.on[break_id].passes for test in suite)


# ----- The suite -----


def read_suite(page: Page) -> tuple[Probe, ...]:
    """Return the tests of the page's section `The suite`.

    Raises PageError for text that is not Python, and for functions that are not tests.
    """
    tests = tuple(
        test
        for fence in page.programs("The suite")
        for test in _read_tests(fence.text, page.path, fence.line)
    )
    refuse_duplicates(tests)
    if not tests:
        remedy = "write `def test_...(lib):` functions in a ```python block below `## The suite`"
        raise PageError(page.path, page.body_line, "the suite has no test", remedy)
    return tests


def read_answer(page: Page) -> tuple[Probe, ...]:
    """Return the probes of the page's section `Answer`."""
    return tuple(
        probe
        for fence in page.programs("Answer")
        for probe in read_probes(fence.text, page.path, fence.line)
    )


def _read_tests(text: str, path: str, line: int) -> Iterator[Probe]:
    for node in parse_python(text, path, line, "suite").body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        arguments = ast.unparse(node.args)
        if not node.name.startswith("test_") or arguments != "lib":
            problem = message(
                "`def {function}({arguments})` is not a test",
                function=node.name,
                arguments=arguments,
            )
            remedy = "write `def test_...(lib):`; helpers start with an underscore"
            raise PageError(path, line + node.lineno - 1, problem, remedy)
        doc = plain(ast.get_docstring(node) or "")
        yield Probe(node.name, doc, "test", (), node.name, text, path, line, takes_lib=True)


def run_suite(page: Page, context: Context) -> list[SuiteTest]:
    """Run every test on the engine, and on the engine with each break of the page.

    Raises PageError, and UsageError for a break that does not exist.
    """
    tests, front = read_suite(page), page.front_as(Exercise)
    clean = context.baseline.clean(context.engine, tests)
    fates = {
        name: judge_tests(prepare_break(name, tests, context), context.baseline)
        for name in (*front.breaks, *front.kills)
    }
    return [
        SuiteTest(
            test.name,
            failure.sentence if (failure := clean[test.name, None].run.failure) else None,
            {name: by_test[test.name] for name, by_test in fates.items()},
        )
        for test in tests
    ]


def judge_tests(experiment: Experiment, baseline: Baseline) -> dict[str, SuiteFate]:
    """Return the fate of each test on a broken engine."""
    runs = baseline.broken(experiment.clean, experiment.broken, experiment.probes)
    unnoticed = {run.probe for run in runs if run.reached and not run.failure}
    tests = [test for test in experiment.probes if test.name in unnoticed]
    trails = baseline.trails(experiment.unpatched, tests)
    return {run.probe: _fate(run, trails.get((run.probe, None), {})) for run in runs}


def _fate(run: Run, trail: Mapping[str, Digest]) -> SuiteFate:
    if run.failure:
        by_assertion = run.failure.type == "AssertionError"
        return SuiteFate(False, "revealed", run.failure.sentence, by_assertion)
    if not run.reached:
        return SuiteFate(True, "not-reached", message("it never runs the changed code"))
    if not infected(run.trail, trail):
        why = message("it runs the changed code, but here both formulas agree")
        return SuiteFate(True, "not-infected", why)
    why = message("values inside differ, but its assertions do not notice")
    return SuiteFate(True, "not-revealed", why)


# ----- What a learner does not see yet -----


def without_answer(page: Page, original: Page) -> Page:
    """Return the page without the sections that reveal the answer.

    They are identified by their position in the original, since a translation has other headings.
    """
    start, *sections = re.split(r"^(?=## )", page.body, flags=re.M)
    pairs = zip(sections, original.headings, strict=False)
    visible = [section for section, heading in pairs if heading not in HIDDEN]
    return replace(page, body="".join([start, *visible]))
