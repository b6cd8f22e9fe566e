"""An exercise: a test suite that a break survives; the learner writes what kills the break.

The suite is a `python` block of plain test functions, `def test_...(lib)`. They run in the child
like probes, on the clean engine and on broken ones, so the report says how far the fault got in
each test. A learner's tests are graded, and probes are tried, as untrusted ones: see `trial`. If
they do not kill the break, the stage says why.
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

from harness.core.errors import PageError
from harness.core.message import Message, message
from harness.core.report import EngineReport
from harness.experiment.context import Context
from harness.grade.functions import SuiteFate, is_test, judge_tests, test_of
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
from harness.pages.probe import Probe, parse_python, read_probes

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
        from harness.grade.suite_file import attack_with_suite  # slow to import

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
