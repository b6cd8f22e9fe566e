"""Running tests of a suite: what Hypothesis and xdist do there."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from harness.grade.running import be_silent, stop_at_the_first_example
from harness.sandbox.fork import can_fork, compute_in_fork


def test_hypothesis_is_not_imported_before_a_suite_does_it_and_then_draws_the_same() -> None:
    program = """
import sys
from harness.grade.running import fix_hypothesis
fix_hypothesis()
assert "hypothesis" not in sys.modules
import hypothesis
chosen = hypothesis.settings.default
assert (chosen.derandomize, chosen.database, chosen.deadline) == (True, None, None)
assert hypothesis.__spec__.loader is hypothesis.__loader__
fix_hypothesis()
assert not any(type(finder).__name__ == "_ProfileLoader" for finder in sys.meta_path)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_warm_process_reads_no_source_for_its_first_test_and_draws_the_same() -> None:
    program = """
import ast, json, sys
import hypothesis
from hypothesis import strategies
from harness.grade.running import fix_hypothesis, warm_hypothesis
fix_hypothesis()
if "warm" in sys.argv:
    warm_hypothesis()
parse, parsed, drawn = ast.parse, [], []
ast.parse = lambda source, *others, **named: parsed.append(1) or parse(source, *others, **named)
@hypothesis.given(strategies.lists(strategies.floats(allow_nan=False)))
def draw(values):
    drawn.append(values)
draw()
print(json.dumps([len(parsed), drawn]))
"""
    cold, warm = (
        json.loads(subprocess.check_output([sys.executable, "-c", program, how]))
        for how in ("cold", "warm")
    )
    assert cold[0] > 0, "Hypothesis does not read the source of local modules any more"
    assert warm[0] == 0
    assert warm[1] == cold[1]


class _Item:
    def __init__(self, obj: object) -> None:
        self.obj = obj


class _Tests:
    def __init__(self) -> None:
        self.drawn: list[int] = []

    @settings(derandomize=True, database=None, max_examples=50)
    @given(st.integers())
    def test_small(self, number: int) -> None:
        self.drawn.append(number)
        assert number < 100


def test_an_example_that_fails_is_not_made_simpler() -> None:
    tests = _Tests()
    _fails(tests)
    assert tests.drawn[-1] == 100
    tests.drawn.clear()
    stop_at_the_first_example(_Item(tests.test_small))  # type: ignore[arg-type]
    _fails(tests)
    failing = {number for number in tests.drawn if number >= 100}
    assert len(failing) == 1
    assert failing != {100}


def _fails(tests: _Tests) -> None:
    try:
        tests.test_small()
    except AssertionError:
        return
    raise ValueError("it passes")


def test_other_tests_and_settings_are_left_alone() -> None:
    def plain() -> None: ...

    @settings(max_examples=7, phases=[Phase.explicit, Phase.generate, Phase.shrink])
    @given(st.integers())
    def chosen(number: int) -> None: ...

    stop_at_the_first_example(_Item(plain))  # type: ignore[arg-type]
    assert not vars(plain)
    stop_at_the_first_example(_Item(chosen))  # type: ignore[arg-type]
    found = vars(chosen)["_hypothesis_internal_use_settings"]
    assert (found.max_examples, found.phases) == (7, (Phase.explicit, Phase.generate))


OUTCOMES = """
import unittest
import pytest

def test_passes(): pass
def test_fails(): assert [1, 2] == [1, 3], "differ"
def test_several_fail(): raise ExceptionGroup("several", [ValueError(1), ValueError(2)])
def test_skips(): pytest.skip("not now")
@pytest.mark.xfail
def test_fails_as_expected(): assert 1 == 2, "expected"
@pytest.mark.xfail(raises=KeyError)
def test_fails_otherwise(): raise ValueError("another")
@pytest.mark.xfail(strict=True)
def test_passes_against_expectation(): pass
@pytest.fixture
def broken(): raise OSError("no fixture")
def test_setup_fails(broken): pass
@pytest.fixture
def leaking():
    yield
    raise OSError("no teardown")
def test_teardown_fails(leaking): pass

class TestCase(unittest.TestCase):
    def test_unit_fails(self): self.assertEqual(1, 2)
    def test_unit_skips(self): self.skipTest("not now")
    @unittest.expectedFailure
    def test_unit_fails_as_expected(self): self.assertEqual(1, 2)
    def test_a_part_fails(self):
        for number in (1, 2):
            with self.subTest(number=number): self.assertEqual(number, 2)
    def test_all_parts_pass(self):
        for number in (1, 2):
            with self.subTest(number=number): self.assertLess(number, 3)
"""

RUN = """
import json, sys
import pytest
from harness.grade.running import Outcomes

class Plugin:
    def pytest_collection_finish(self, session):
        outcomes = Outcomes()
        session.config.pluginmanager.register(outcomes)
        ended = {}
        for item in session.items:
            outcomes.run(item, None)
            ended[item.name] = outcomes.result, outcomes.raised.text
        sys.__stdout__.write("\\n" + json.dumps(ended))
        session.items.clear()

    def pytest_exception_interact(self, call, report):
        group = isinstance(call.excinfo.value, ExceptionGroup)
        assert group or not report.longrepr.reprtraceback.reprentries

options = ["-qq", "-p", "no:cacheprovider", "--capture=no", "--no-header"]
pytest.main([*options, sys.argv[1]], [Plugin()])
"""


def test_failures_are_recorded_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "test_all.py").write_text(OUTCOMES)
    output = subprocess.check_output([sys.executable, "-c", RUN, tmp_path / "test_all.py"])
    ended = json.loads(next(line for line in output.split(b"\n") if line.startswith(b"{")))
    assert {name: result for name, (result, _) in ended.items()} == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_several_fail": "failed",
        "test_skips": "skipped",
        "test_fails_as_expected": "xfailed",
        "test_fails_otherwise": "failed",
        "test_passes_against_expectation": "failed",
        "test_setup_fails": "failed",
        "test_teardown_fails": "failed",
        "test_unit_fails": "failed",
        "test_unit_skips": "skipped",
        "test_unit_fails_as_expected": "passed",
        "test_a_part_fails": "failed",
        "test_all_parts_pass": "passed",
    }
    assert ended["test_fails"][1].startswith("AssertionError: differ")
    assert ended["test_several_fail"][1] == "ExceptionGroup: several (2 sub-exceptions)"
    assert ended["test_setup_fails"][1] == "OSError: no fixture"
    assert ended["test_unit_fails"][1] == ended["test_a_part_fails"][1] == "AssertionError: 1 != 2"


class _Worker:
    def sendevent(self) -> None: ...


@pytest.mark.skipif(not can_fork(), reason="this process cannot be forked")
def test_a_fork_sends_nothing_in_the_name_of_a_worker_of_xdist() -> None:
    manager = pytest.PytestPluginManager()
    manager.register(_Worker(), "worker")
    manager.register(_Tests(), "other")
    config: Any = SimpleNamespace(pluginmanager=manager, option=SimpleNamespace())

    def work() -> bytes:
        be_silent(config)
        return bytes([manager.hasplugin("worker"), manager.hasplugin("other")])

    assert compute_in_fork(work) == bytes([False, True])
