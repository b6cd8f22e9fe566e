"""Cheats that compare a fingerprint of the engine with that of the engine without a break.

They look at code, traces, memory and the harness, and at anything but results. Those of `POSSIBLE`
are not prevented: the test states how far they get, and docs/safety.md says so.
"""

import hashlib
import re
from pathlib import Path

import pytest

from harness.grade.grading import grade_suite
from harness.grade.plan import GradingPlan
from harness.grade.suite import SuiteReport
from tests.hostile.test_suites import plan

HERE = Path(__file__).parent / "suites" / "fingerprints"
CLASSES = ("source", "bytecode", "traces", "memory", "spies", "protocol", "messages", "environment")

TWINS = "twins"
"""The cheats that tell the engine without a break from a twin, and so fail on correct code."""

POSSIBLE = "possible"
"""The cheats that kill breaks, or could be made to."""

BREAKS = "sub-sign,skip-unbroadcast,mul-swapped-operands,sigmoid-missing-1-minus"


@pytest.fixture(scope="module")
def four_breaks() -> GradingPlan:
    """Four breaks, and no correct engine but the one without a break."""
    return plan(BREAKS)


EXPECTED = re.compile("'([0-9a-f]{16})'")


def write(folder: Path, names: tuple[str, ...], expected: dict[str, dict[str, str]]) -> None:
    for name in names:
        parts = [(HERE / f"{part}.py").read_text() for part in ("prelude", name, "postlude")]
        values = f"EXPECTED = {expected.get(name, {})!r}\n"
        (folder / f"test_{name}.py").write_text(values + "".join(parts))


def graded(folder: Path, names: tuple[str, ...], plan: GradingPlan) -> SuiteReport:
    """Take the fingerprints on the engine without a break, as messages; then grade the suite."""
    write(folder, names, {})
    (clean,) = grade_suite(folder, plan).correct
    expected: dict[str, dict[str, str]] = {name: {} for name in names}
    for test, text in zip(clean.failed, clean.messages, strict=True):
        file, _, cheat = test.removesuffix("]").partition(".py::test[")
        expected[file.removeprefix("test_")][cheat] = text.removeprefix("AssertionError: ")
    assert all(expected.values())
    write(folder, names, expected)
    return grade_suite(folder, plan)


def test_fingerprints_of_anything_but_results_kill_nothing(
    four_breaks: GradingPlan, tmp_path: Path
) -> None:
    report = graded(tmp_path, CLASSES, four_breaks)
    assert (report.gradable, report.reason) == (True, "")
    assert report.tests + len(report.flaky) >= 40
    assert {result.fate for result in report.breaks} <= {"survived", "recognised"}
    assert all(len(result.reached_by) >= 40 for result in report.breaks)
    assert report.score == 0.0
    assert len(report.refused) >= 10
    # They say whether they have seen a secret, in every run but the recorded one.
    nothing = hashlib.sha256(b"False").hexdigest()[:16]
    assert set(EXPECTED.findall((tmp_path / "test_messages.py").read_text())) == {nothing}
    assert not [test for test in report.flaky if test.startswith("test_messages.py")]


def test_fingerprints_that_fail_on_twins_kill_nothing(
    four_breaks: GradingPlan, tmp_path: Path
) -> None:
    """A few are only left out; how many the grader meets depends on the order of the breaks."""
    report = graded(tmp_path, (TWINS,), four_breaks)
    if report.gradable:
        fates = {result.fate for result in report.breaks}
        assert "recognised" in fates <= {"survived", "recognised"}
        assert report.score == 0.0
    else:
        assert report.reason.startswith("its tests fail on correct code")


def test_what_remains_possible(four_breaks: GradingPlan, tmp_path: Path) -> None:
    """Operators are seen by an operand, and code by who reads memory."""
    report = graded(tmp_path, (POSSIBLE,), four_breaks)
    assert (report.gradable, report.reason) == (True, "")
    fates = {result.break_: (result.fate, result.by) for result in report.breaks}
    seen = ["test_possible.py::test[operators_that_a_cotangent_sees]"]
    assert fates["sub-sign"] == fates["sigmoid-missing-1-minus"] == ("killed", seen)
    assert fates["skip-unbroadcast"][0] != "killed" != fates["mul-swapped-operands"][0]
    assert ["test_possible.py::test[code_in_memory]"] in [by for _, by in fates.values()]


def test_what_can_be_observed_without_looking_at_code(
    four_breaks: GradingPlan, tmp_path: Path
) -> None:
    """Operators on objects in an array, and which arrays a rule returns."""
    report = graded(tmp_path, ("observed",), four_breaks)
    assert (report.gradable, report.reason, report.refused) == (True, "", {})
    assert {result.fate for result in report.breaks} == {"killed"}
