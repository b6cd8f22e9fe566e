"""An exercise: a test suite that a break survives; the learner writes what kills the break.

The suite is a `python` block of plain test functions, `def test_...(lib)`. They run in a child like
probes, with the engine as `lib`, on the clean engine and on broken ones, so the report says how far
the fault got in each test. A learner's file of tests is an ordinary pytest file, and an exercise is
the smallest grading of it; probes are tried as untrusted ones: see `trial`. If they do not kill the
break, the stage says why.
"""

from __future__ import annotations

import ast
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from harness.core import read_text
from harness.core.errors import PageError
from harness.core.message import Message, message, verbatim
from harness.core.report import EngineReport
from harness.core.run import Run
from harness.core.vocabulary import Stage
from harness.experiment.baseline import Baseline, Context
from harness.experiment.description import RunPair
from harness.experiment.lab import inside_runs
from harness.experiment.patching import Experiment
from harness.grade.grading import grade_suite
from harness.grade.plan import plan_grading
from harness.grade.probes import (
    TEST_FAILED,
    Attack,
    Soundness,
    attack_break,
    check_soundness,
    ends,
    prepare_break,
    recognises,
    refuse_duplicates,
)
from harness.grade.suite import BreakResult, SuiteReport
from harness.grade.survivors import stage_of_survivor
from harness.pages.front_matter import Exercise
from harness.pages.page import Page
from harness.pages.probe import Probe, parse_python, plain, read_probes

TEST = "test_"

LOST: dict[Stage | None, Message] = {
    None: message("it runs the changed code; its numbers were not compared"),
    "not-reached": message("it never runs the changed code"),
    "not-infected": message("its inputs hide it: all numbers are right"),
    "not-revealed": message("a number inside is wrong, and no assertion looks at it"),
}
"""Where the fault was lost in a test that passes."""


class SuiteFate(msgspec.Struct, frozen=True):
    """Whether a test passes on a broken engine, and where the fault was lost if it does."""

    passes: bool
    stage: Stage | None
    why: Message
    by_assertion: bool = False
    """Whether it fails by an assertion of its own, rather than by an exception of the engine."""


def is_test(function: ast.FunctionDef) -> bool:
    """Whether a function is a test that takes the engine."""
    return function.name.startswith(TEST) and ast.unparse(function.args) == "lib"


def test_of(function: ast.FunctionDef, text: str, path: str, line: int) -> Probe:
    """Return a test as a probe; `text` is all that it needs, from that line of the file on."""
    doc = plain(ast.get_docstring(function) or "")
    return Probe(function.name, doc, "test", (), function.name, text, path, line, takes_lib=True)


def judge_tests(experiment: Experiment, baseline: Baseline) -> dict[str, SuiteFate]:
    """Return the fate of each test on a broken engine."""
    runs = baseline.broken(experiment.clean, experiment.broken, experiment.probes)
    unnoticed = {run.probe for run in runs if run.reached and not run.failure}
    tests = [test for test in experiment.probes if test.name in unnoticed]
    inside = inside_runs(experiment, baseline, tests)
    return {run.probe: _fate(run, inside.get((run.probe, run.loss))) for run in runs}


def _fate(run: Run, inside: RunPair | None) -> SuiteFate:
    if run.failure:
        by_assertion = run.failure.type == "AssertionError"
        return SuiteFate(False, "revealed", run.failure.sentence, by_assertion)
    if not run.reached:
        return SuiteFate(True, "not-reached", LOST["not-reached"])
    stage = None if inside is None else stage_of_survivor([inside.infection])
    return SuiteFate(True, stage, LOST[stage])


# ----- A file of tests that a learner wrote -----

EXERCISE_ROUNDS = 8
"""The number of rewrites of a break on which a test must fail.

More than in a grading: with so few breaks, a lucky guess would be worth more.
"""


def is_suite_file(path: Path) -> bool:
    """Whether a file has tests that pytest would find.

    Raises PageError for a file that cannot be read or is not Python text.
    """
    body = parse_python(read_text(path), str(path), 1, "file").body
    return any(
        node.name == "test" or node.name.startswith(TEST)
        if isinstance(node, ast.FunctionDef)
        else isinstance(node, ast.ClassDef) and _holds_tests(node)
        for node in body
    )


def _holds_tests(node: ast.ClassDef) -> bool:
    bases = " ".join(map(ast.unparse, node.bases))
    return node.name.startswith("Test") or "TestCase" in bases


def attack_with_suite(
    path: Path, breaks: Sequence[str], context: Context, seed: bytes
) -> tuple[list[Soundness], list[Attack]]:
    """Grade a suite on some breaks; return whether it can be judged, and the fate of each break.

    Raises UsageError for a break that does not exist, EnvironmentProblem if no process can be
    started.
    """
    plan = plan_grading(
        context.catalogue,
        context.engine,
        context.baseline.cache,
        selection=",".join(breaks),
        correct=(),
        seed=seed,
    )
    report = grade_suite(path, replace(plan, rounds=EXERCISE_ROUNDS))
    if not report.gradable:
        return _problems(path, report), []
    results = {result.break_: result for result in report.breaks}
    attacks = [_attack(results[name], context) for name in breaks]
    return [Soundness(path.name, [])], attacks


def _problems(path: Path, report: SuiteReport) -> list[Soundness]:
    """Return the tests that fail on the engine without a break, or else what is wrong at all."""
    failing = [
        Soundness(_name(test), [message("it fails on the unbroken engine: {failure}", failure=how)])
        for engine in report.correct
        for test, how in zip(engine.failed, engine.messages, strict=True)
    ]
    return failing or [Soundness(path.name, [verbatim(report.reason)])]


def _name(test: str) -> str:
    """Return a test's id without the file, of which there is only one."""
    return test.partition("::")[2] or test


def _attack(result: BreakResult, context: Context) -> Attack:
    tests = list(map(_name, result.by))
    killed, recognised = result.fate == "killed", result.fate == "recognised"
    ended = {_name(test): how for test, how in result.ended.items()}
    stage: Stage | None = result.stage
    if recognised:
        stage, why = "not-revealed", recognises(tests[0])
    elif killed:
        why = message("`{test}` fails", test=tests[0])
    elif ended:
        stage, why = "not-revealed", ends(*next(iter(ended.items())))
    else:
        why = LOST.get(stage, message("no test detects it"))
    return Attack(
        break_=result.break_,
        killed_by={test: [TEST_FAILED] for test in tests} if killed else {},
        stage=stage,
        why=why,
        sites=prepare_break(result.break_, (), context).sites,
        runs=[],
        recognised=tests if recognised else [],
        ended={} if killed else ended,
        reason=None if ended else result.reason,
    )


# ----- The exercise -----

HIDDEN = ("Answer", "Lesson")
"""Sections that are hidden until the break is killed, or on request."""


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
    """The soundness of the learner's tests or probes; empty if there are none."""
    attacks: list[Attack]
    """One per break; empty if a probe is not sound."""
    killed: bool | None
    """None if there is no file."""
    seconds: float
    score: int | None = None
    """How many of `breaks` are killed; None if there is no file."""


def run_exercise(
    page: Page,
    context: Context,
    probes: Sequence[Probe] = (),
    seed: bytes | None = None,
    suite_file: Path | None = None,
) -> ExerciseReport:
    """Run the suite, and judge the learner's probes or file of tests if there are any.

    The seed of the trials is secret unless it is given.

    Raises PageError for a page that cannot be used, UsageError for a page that is not an exercise
    and for a break that does not exist.
    """
    start, front = time.perf_counter(), page.front_as(Exercise)
    suite = run_suite(page, context)
    seed = seed or secrets.token_bytes(32)
    if suite_file is not None:
        soundness, attacks = attack_with_suite(suite_file, front.breaks, context, seed)
    else:
        soundness, attacks = check_soundness(probes, context), []
        if soundness and not any(result.problems for result in soundness):
            attacks = [attack_break(name, probes, context, seed) for name in front.breaks]
    killed = sum(bool(result.killed_by) for result in attacks)
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
        killed=0 < killed == len(front.breaks) if soundness else None,
        seconds=round(time.perf_counter() - start, 3),
        score=killed if soundness else None,
    )


def passes(suite: Sequence[SuiteTest], break_id: str) -> bool:
    """Whether a broken engine passes the suite."""
    return all(test.on[break_id].passes for test in suite)


# ----- Reading and running the suite of a page -----


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
        if not is_test(node):
            problem = message(
                "`def {function}({arguments})` is not a test",
                function=node.name,
                arguments=ast.unparse(node.args),
            )
            remedy = "write `def test_...(lib):`; helpers start with an underscore"
            raise PageError(path, line + node.lineno - 1, problem, remedy)
        yield test_of(node, text, path, line)


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


# ----- What a learner does not see yet -----


def without_answer(page: Page, original: Page) -> Page:
    """Return the page without the sections that reveal the answer.

    They are identified by their position in the original, since a translation has other headings.
    """
    start, *sections = re.split(r"^(?=## )", page.body, flags=re.M)
    pairs = zip(sections, original.headings, strict=False)
    visible = [section for section, heading in pairs if heading not in HIDDEN]
    return replace(page, body="".join([start, *visible]))
