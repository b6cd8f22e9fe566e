"""A submission that is an ordinary pytest file: it imports the engine, and may use fixtures."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from harness.core import read_text
from harness.core.message import message, verbatim
from harness.experiment.context import Context
from harness.grade.blind import TEST_FAILED
from harness.grade.functions import LOST, TEST, is_test
from harness.grade.grading import grade_suite
from harness.grade.plan import plan_grading
from harness.grade.submission import Attack, Soundness, prepare_break, recognises
from harness.grade.suite import BreakResult
from harness.pages.probe import parse_python


def is_suite_file(path: Path) -> bool:
    """Whether a file has tests that pytest would find, and none that takes the engine as `lib`.

    Raises PageError for a file that cannot be read or is not Python text.
    """
    body = parse_python(read_text(path), str(path), 1, "file").body
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    tests = [node for node in functions if node.name.startswith(TEST)]
    classes = [node for node in body if isinstance(node, ast.ClassDef) and _holds_tests(node)]
    return bool(tests or classes) and not any(map(is_test, tests))


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
    report = grade_suite(path, plan)
    if not report.gradable:
        return [Soundness(path.name, [verbatim(report.reason)])], []
    results = {result.break_: result for result in report.breaks}
    attacks = [_attack(results[name], context) for name in breaks]
    return [Soundness(path.name, [])], attacks


def _attack(result: BreakResult, context: Context) -> Attack:
    killed = result.fate == "killed"
    recognised = result.by if result.fate == "recognised" else []
    stage = result.stage
    if recognised:
        stage, why = "not-revealed", recognises(recognised[0])
    elif killed:
        why = message("`{test}` fails", test=result.by[0])
    else:
        why = LOST.get(stage or "revealed", message("no test detects it"))
    return Attack(
        break_=result.break_,
        killed_by={test: [TEST_FAILED] for test in result.by} if killed else {},
        stage=stage,
        why=why,
        sites=prepare_break(result.break_, (), context).sites,
        runs=[],
        recognised=recognised,
    )
