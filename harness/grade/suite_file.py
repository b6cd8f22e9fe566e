"""A submission of tests: an exercise is the smallest grading.

The file is an ordinary pytest file: its tests import the engine, or take it as `lib`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.core import read_text
from harness.core.message import message, verbatim
from harness.core.vocabulary import Stage
from harness.experiment.context import Context
from harness.grade.functions import LOST, TEST
from harness.grade.grading import grade_suite
from harness.grade.plan import plan_grading
from harness.grade.submission import (
    TEST_FAILED,
    Attack,
    Soundness,
    ends,
    prepare_break,
    recognises,
)
from harness.grade.suite import BreakResult, SuiteReport
from harness.pages.probe import parse_python

ROUNDS = 8
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
    report = grade_suite(path, replace(plan, rounds=ROUNDS))
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
    )
