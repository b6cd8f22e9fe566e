"""The reasons of survivors in a grading: measured after the verdicts, in a process of their own."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.engines.engine import find_engine
from harness.grade import processes, survivors
from harness.grade.feedback import Feedback, disclose
from harness.grade.grading import grade_suite
from harness.grade.plan import GradingPlan, plan_grading
from harness.grade.suite import BreakResult, CallProperty, SuiteReport
from harness.report.grading import FORMATS, render
from harness.runs.cache import open_cache
from harness.runs.comparison import MOST_CALLS
from harness.sandbox.limits import Limits
from tests.harness.bundled import CATALOGUE
from tests.harness.grade.results import report, result

LIMITS = Limits(600.0, 30)

SUITE = """
import numpy as np
from minigrad import tensor


def leaves(*shapes):
    return [tensor(np.ones(shape), requires_grad=True) for shape in shapes]


def test_there():
    a, b = leaves((3,), (4, 3))
    (a + b).sum().backward()
    assert a.grad is not None


def test_sub():
    a, _ = leaves((2,), ())
    (a - 1.0).sum().backward()
    assert list(a.grad) == [1.0, 1.0]


def test_mul():
    (a,) = leaves((2, 2))
    (a * a).sum().backward()
    assert np.all(a.grad == 2.0)


def test_tanh():
    (a,) = leaves((2,))
    a.tanh().sum().backward()
    assert np.allclose(a.grad, 1 - np.tanh(1) ** 2)
"""
SELECTION = (
    "skip-unbroadcast,sub-sign,mul-swapped-operands,tanh-uses-input,"
    "tape-gradient-in-target-shape"  # cannot be swapped
)


@pytest.fixture(autouse=True, scope="module")
def _patience() -> Iterator[None]:
    """No run is ended because the machine is busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "PATIENCE", 300.0)
        patch.setattr(processes, "CPU_PATIENCE", 30)
        patch.setattr(survivors, "PATIENCE", 300.0)
        yield


def plan(selection: str = SELECTION) -> GradingPlan:
    return plan_grading(
        CATALOGUE,
        find_engine(),
        open_cache(),
        selection=selection,
        correct=(),
        seed=b"secret",
        limits=LIMITS,
    )


def grade(folder: Path, text: str, selection: str = SELECTION) -> dict[str, BreakResult]:
    return {one.break_: one for one in graded(folder, text, selection).breaks}


def graded(folder: Path, text: str, selection: str = SELECTION) -> SuiteReport:
    (folder / "test_mine.py").write_text(text)
    found = grade_suite(folder, plan(selection))
    assert found.gradable, found.reason
    return found


def test_a_grading_says_why_each_break_survives(tmp_path: Path) -> None:
    found = grade(tmp_path, SUITE)
    assert {name: one.fate for name, one in found.items()} == {
        "skip-unbroadcast": "survived",
        "sub-sign": "survived",
        "mul-swapped-operands": "survived",
        "tanh-uses-input": "killed",
        "tape-gradient-in-target-shape": "survived",
    }
    reasons = {name: one.reason for name, one in found.items() if one.reason}
    unlooked = reasons["skip-unbroadcast"]
    assert (unlooked.kind, unlooked.test) == ("assertion", "test_mine.py::test_there")
    constant, square = reasons["sub-sign"], reasons["mul-swapped-operands"]
    assert (constant.kind, constant.common[0].kind) == ("inputs", "no-gradient")
    assert (square.kind, square.common[0].kind) == ("inputs", "equal-arrays")
    assert "tanh-uses-input" not in reasons
    stages = {name: one.stage for name, one in found.items()}
    assert stages["skip-unbroadcast"] == "not-revealed"
    assert stages["sub-sign"] == stages["mul-swapped-operands"] == "not-infected"
    assert found["tape-gradient-in-target-shape"].path == "reloaded"
    assert reasons["tape-gradient-in-target-shape"].kind == "not-measured"  # nothing calls it


def test_no_process_is_started_if_nothing_survives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(processes.Processes, "compare", compare)
    found = grade(tmp_path, SUITE, "tanh-uses-input")
    assert [(one.fate, one.reason) for one in found.values()] == [("killed", None)]


def test_a_reason_that_takes_too_long_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survivors, "PATIENCE", -1e6)
    (one,) = grade(tmp_path, SUITE, "skip-unbroadcast").values()
    assert one.reason is not None
    assert (one.fate, one.reason.kind) == ("survived", "not-measured")
    assert one.stage == "not-revealed"  # as the values inside the tests show


FORGED = """
import builtins

def forge():
    compare = getattr(builtins, "__breaklab_compare__", None)
    if compare is not None:
        result = compare.__self__.result
        result.wrong_test, result.wrong_call = {wrong}
        result.calls, result.common = {calls}, {common}
        assert {passes}

"""


@pytest.mark.parametrize(
    ("forged", "kind"),
    [
        ({"wrong": (0, 7), "common": {("ones", "whispered")}}, "assertion"),
        ({"common": {("ones", "whispered"), ("zeros", "requires_grad")}}, "inputs"),
        ({"common": {("one-element", ""), ("none", "")}}, "inputs"),
        ({"common": {("equal-shapes", "a"), ("not-run", "b")}}, "inputs"),
        ({"common": {("zeros", "`a\\n\\x1b"), ("one-element", "<a>")}}, "inputs"),
        ({"calls": MOST_CALLS + 1}, "not-measured"),
        ({"common": {("whispered", "a")}}, "not-measured"),
        ({"wrong": (99, 1)}, "not-measured"),
        ({"passes": False}, "not-measured"),
    ],
)
def test_a_suite_that_forges_its_reason_spoils_only_that(
    forged: dict[str, object], kind: str, tmp_path: Path
) -> None:
    details = {"wrong": (None, 0), "calls": 3, "common": None, "passes": True} | forged
    text = FORGED.format(**details) + SUITE.replace("assert a.grad is not None", "forge()")
    found = graded(tmp_path, text, "skip-unbroadcast,tanh-uses-input")
    assert [one.fate for one in found.breaks] == ["survived", "killed"]
    reason = found.breaks[0].reason
    assert reason is not None
    assert reason.kind == kind
    assert reason.common == []
    for form in FORMATS:
        assert "whispered" not in render(disclose(found, "names"), form)


def test_a_process_that_is_not_blind_leaves_the_verdicts_alone(tmp_path: Path) -> None:
    """A suite that sees the code there, and fails, has killed nothing."""
    seeing = "    from minigrad.elementwise import add\n    add.__code__\n    assert False\n"
    blind = "\n\ndef test_see():\n    try:\n        add = __import__('minigrad').elementwise.add\n"
    text = f"{SUITE}{blind}        add.__code__\n    except TypeError:\n        return\n{seeing}"
    (one,) = grade(tmp_path, text, "skip-unbroadcast").values()
    assert (one.fate, one.by) == ("survived", [])


SECRETIVE = report(
    result(
        "sub-sign",
        "survived",
        reason=survivors.Reason(
            "inputs",
            3,
            common=[CallProperty("ones", "secret_name"), CallProperty("equal-shapes")],
        ),
    ),
    result(
        "mul-swap",
        "survived",
        reason=survivors.Reason("assertion", 3, test="t.py::test_chosen_by_a_run", call=5),
    ),
)


@pytest.mark.parametrize("feedback", ["score", "stage"])
def test_feedback_that_names_no_break_names_no_variable_of_the_engine(feedback: Feedback) -> None:
    for form in FORMATS:
        if form != "sarif":
            text = render(disclose(SECRETIVE, feedback), form)
            assert "secret_name" not in text, form
            assert "chosen_by_a_run" not in text, form


def test_every_format_shows_the_reason() -> None:
    for form in FORMATS:
        text = " ".join(render(disclose(SECRETIVE, "names"), form).split())
        if form == "json":
            kinds = [one["reason"]["kind"] for one in json.loads(text)["breaks"]]
            assert kinds == ["inputs", "assertion"]
            continue
        assert "the inputs hide it: the right numbers in all 3 calls" in text, form
        assert "the first wrong number is in call 5, in test_chosen_by_a_run" in text, form
        if form not in ("html", "sarif"):
            text = " ".join(render(disclose(SECRETIVE, "stage"), form).split())
            assert "(an array is all ones; all shapes are equal)" in text, form
