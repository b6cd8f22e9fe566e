"""Running tests of a suite: what Hypothesis and xdist do there."""

import json
import subprocess
import sys
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
