"""Test functions, `def test_...(lib)`: they run in a child like probes, with the engine as `lib`.

They have no leaves, and pass unless they raise. The suite of an exercise consists of them, and a
learner may submit them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

import msgspec

from harness.answer_key.outcome import infected
from harness.core.message import Message, message
from harness.core.run import Digest, Run
from harness.core.vocabulary import Stage
from harness.experiment.baseline import Baseline
from harness.experiment.patching import Experiment
from harness.pages.probe import Probe, plain

TEST = "test_"

LOST: dict[Stage, Message] = {
    "not-reached": message("it never runs the changed code"),
    "not-infected": message("it runs the changed code, but here both formulas agree"),
    "not-revealed": message("intermediate values differ, but its assertions do not notice"),
}
"""Where the fault was lost in a test that passes."""


class SuiteFate(msgspec.Struct, frozen=True):
    """Whether a test passes on a broken engine, and where the fault was lost if it does."""

    passes: bool
    stage: Stage
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
    trails = baseline.trails(experiment.unpatched, tests)
    return {run.probe: _fate(run, trails.get((run.probe, None), {})) for run in runs}


def _fate(run: Run, trail: Mapping[str, Digest]) -> SuiteFate:
    if run.failure:
        by_assertion = run.failure.type == "AssertionError"
        return SuiteFate(False, "revealed", run.failure.sentence, by_assertion)
    if not run.reached:
        return SuiteFate(True, "not-reached", LOST["not-reached"])
    stage: Stage = "not-revealed" if infected(run.trail, trail) else "not-infected"
    return SuiteFate(True, stage, LOST[stage])
