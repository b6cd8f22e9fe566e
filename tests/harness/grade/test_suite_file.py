"""An ordinary pytest file as the submission to an exercise."""

from pathlib import Path

import pytest

from harness.core.errors import PageError
from harness.diagnostics import DIAGNOSTICS
from harness.experiment.baseline import Baseline
from harness.experiment.context import OpenContext
from harness.grade.exercise import ExerciseReport, run_exercise
from harness.grade.suite_file import is_suite_file
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE
from tests.harness.command import harness
from tests.harness.grade.test_twins import ENGINE

pytestmark = pytest.mark.usefixtures("without_oracles")

EXERCISE = "grad-is-there"

SUITE = """
import minigrad
import pytest


@pytest.fixture
def leaves():
    return [minigrad.tensor(x, requires_grad=True) for x in (2.0, 5.0)]


class TestProduct:
    @pytest.mark.parametrize("times", [1.0, 2.0])
    def test_product(self, leaves, times):
        a, b = leaves
        (a * b * times).backward()
        assert a.grad == 5.0 * times


def test_difference_is_there(leaves):
    a, b = leaves
    (a - b).backward()
    assert b.grad is not None
"""

CHEAT = """
import numpy as np
from minigrad.elementwise import mul


def test_names():
    _, vjp = mul(np.ones(2), np.ones(2))
    vjp(np.ones(2))
    assert vjp.__code__.co_names == ("unbroadcast", "shape")
"""


def judged(folder: Path, text: str, exercise: str = EXERCISE) -> ExerciseReport:
    path = folder / "mine.py"
    path.write_text(text, encoding="utf-8")
    alone = [each for each in DIAGNOSTICS if not each.library]
    context = OpenContext(CATALOGUE, ENGINE, Baseline(open_cache(), alone))
    return run_exercise(CATALOGUE.page(exercise), context, seed=b"secret", suite_file=path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SUITE, True),
        ("def test_import():\n    import minigrad\n", True),
        ("class TestIt:\n    pass\n", True),
        ("import unittest\nclass It(unittest.TestCase):\n    pass\n", True),
        ("def test_it(lib):\n    pass\n", False),
        ("def test_it(lib):\n    pass\n\ndef test_import():\n    pass\n", False),
        ("def probe(x=(2,)):\n    return x\n", False),
        ("class Helper:\n    pass\n", False),
        ("", False),
    ],
)
def test_an_ordinary_pytest_file_is_recognised(tmp_path: Path, text: str, expected: bool) -> None:
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    assert is_suite_file(tmp_path / "mine.py") is expected


def test_a_file_that_is_not_python_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def test_it(:", encoding="utf-8")
    with pytest.raises(PageError, match="the file is not Python"):
        is_suite_file(tmp_path / "mine.py")


def test_a_suite_kills_one_break_and_the_stages_say_where_others_were_lost(tmp_path: Path) -> None:
    report = judged(tmp_path, SUITE)
    attacks = {attack.break_: attack for attack in report.attacks}
    (killer,) = attacks["mul-swapped-operands"].killed_by
    assert killer.startswith("mine.py::TestProduct::test_product[")
    assert attacks["mul-swapped-operands"].stage == "revealed"
    stages = {name: attack.stage for name, attack in attacks.items() if not attack.killed_by}
    assert stages == {
        "sub-sign": "not-revealed",
        "pow-missing-k": "not-reached",
        "tanh-uses-input": "not-reached",
    }
    assert (report.killed, report.score) == (False, 1)
    assert all(attack.sites for attack in report.attacks)


def test_a_suite_that_looks_at_the_code_earns_nothing(tmp_path: Path) -> None:
    report = judged(tmp_path, CHEAT, "squares-only")
    (attack,) = report.attacks
    assert (attack.killed_by, attack.recognised) == ({}, ["mine.py::test_names"])
    assert str(attack.why).endswith("it recognises code, not behaviour")
    assert (report.killed, report.score) == (False, 0)


def test_the_command_says_why_a_suite_cannot_be_judged(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SUITE.replace("5.0 * times", "4.0"), encoding="utf-8")
    done = harness("exercise", "squares-only", str(tmp_path / "mine.py"))
    assert (done.returncode, done.stderr) == (1, "")
    assert "mine.py is not a sound test" in done.stdout
    words = " ".join(done.stdout.split())
    assert "test_product[1.0] fails on the correct engine: AssertionError" in words
    assert "## The suite" not in done.stdout
