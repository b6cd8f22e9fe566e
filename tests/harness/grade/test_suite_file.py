"""An ordinary pytest file as the submission to an exercise."""

from pathlib import Path

import pytest

from harness.core.errors import PageError
from harness.diagnostics import DIAGNOSTICS
from harness.experiment.baseline import Baseline, OpenContext
from harness.grade import plan
from harness.grade.exercise import ExerciseReport, is_suite_file, run_exercise
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE
from tests.harness.command import harness
from tests.harness.grade.test_twins import ENGINE
from tests.harness.sound_exercise import PRODUCT

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

WITH_LIB = f"""
import minigrad

{PRODUCT}

def test_that_imports():
    a = leaf(minigrad, 3.0)
    (1.0 - a).backward()
    assert a.grad == -1.0
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
        ("def test_it(lib):\n    pass\n", True),
        ("def test():\n    pass\n", True),
        ("def probe(x=(2,)):\n    return x\n", False),
        ("class Helper:\n    pass\n", False),
        ("", False),
    ],
)
def test_a_file_with_tests_is_told_from_one_with_probes(
    tmp_path: Path, text: str, expected: bool
) -> None:
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
    assert killer.startswith("TestProduct::test_product[")
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
    (unsound,) = report.probes
    assert unsound.probe == "test_names"
    assert "cannot look at the code of the engine: __code__" in str(unsound.problems[0])
    assert (report.attacks, report.killed, report.score) == ([], False, 0)


def test_the_command_says_why_a_suite_cannot_be_judged(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SUITE.replace("5.0 * times", "4.0"), encoding="utf-8")
    done = harness("exercise", "squares-only", str(tmp_path / "mine.py"))
    assert (done.returncode, done.stderr) == (1, "")
    for times in (1.0, 2.0):
        words = (
            f"TestProduct::test_product[{times}] is not a sound test\n  it fails on the unbroken"
        )
        assert words in done.stdout
    assert "## The suite" not in done.stdout


def test_without_pytest_the_remedy_is_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(SUITE, encoding="utf-8")
    monkeypatch.setattr(plan, "find_spec", lambda _: None)
    done = harness("exercise", EXERCISE, str(tmp_path / "mine.py"))
    assert done.returncode == 3
    assert "not installed\n  remedy: pip install pytest" in done.stderr


def test_a_test_takes_the_engine_or_imports_it(tmp_path: Path) -> None:
    report = judged(tmp_path, WITH_LIB)
    killers = {attack.break_: list(attack.killed_by) for attack in report.attacks}
    assert killers == {
        "mul-swapped-operands": ["test_product"],
        "sub-sign": ["test_that_imports"],
        "pow-missing-k": [],
        "tanh-uses-input": [],
    }


def test_what_cannot_be_collected_is_said_of_the_file(tmp_path: Path) -> None:
    report = judged(tmp_path, WITH_LIB + "\nimport nothing_of_that_name\n")
    (one,) = report.probes
    assert (one.probe, report.killed) == ("mine.py", False)
    assert "No module named 'nothing_of_that_name'" in str(one.problems[0])
