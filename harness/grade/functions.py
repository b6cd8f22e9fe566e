"""Test functions, `def test_...(lib)`: they run in a child like probes, with the engine as `lib`.

They have no leaves, and pass unless they raise. The suite of an exercise consists of them, and a
learner may submit them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

import msgspec

from harness.answer_key.stage import Infection
from harness.core.message import Message, message
from harness.core.run import Run
from harness.core.vocabulary import Stage
from harness.experiment.baseline import Baseline
from harness.experiment.lab import infections
from harness.experiment.patching import Experiment
from harness.pages.probe import Probe, plain

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
    trails = {(run.probe, run.loss): run.trail for run in runs}
    infected = infections(experiment, baseline, trails, tests)
    return {run.probe: _fate(run, infected.get((run.probe, run.loss))) for run in runs}


def _fate(run: Run, infection: Infection | None) -> SuiteFate:
    if run.failure:
        by_assertion = run.failure.type == "AssertionError"
        return SuiteFate(False, "revealed", run.failure.sentence, by_assertion)
    if not run.reached:
        return SuiteFate(True, "not-reached", LOST["not-reached"])
    stage = None if infection is None else stage_of_survivor([infection])
    return SuiteFate(True, stage, LOST[stage])


def stage_of_survivor(infections: Sequence[Infection]) -> Stage | None:
    """Return where a fault was lost in tests that pass; None if that is not known."""
    values = {infection.values for infection in infections}
    if "wrong" in values:
        return "not-revealed"
    return None if "unknown" in values or not values else "not-infected"
