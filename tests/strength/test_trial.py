"""What becomes of a mutant, on a repository of one module and one test module."""

import os
from pathlib import Path

import pytest

from tests.strength import trial
from tests.strength.__main__ import Result, append, read, summary
from tests.strength.mutants import Mutant, mutants
from tests.strength.trial import Baseline, run_mutant, run_tests

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")

SOURCE = b"""\
import time

def largest(a, b):
    return a if a > b else b

def count(n):
    while n > 0:
        n -= 1
    return n

def sleep(n):
    while n > 0:
        time.sleep(0.5)
        n -= 0.5
    return n
"""
TESTS = """\
from harness.patch.small import count, largest, sleep

def test_count():
    assert count(3) == 0

def test_largest():
    assert largest(1, 2) == largest(2, 1) == largest(2, 2) == 2

def test_sleep():
    assert sleep(1) == 0

def test_that_fails_anyhow():
    assert False
"""
EMPTY = Baseline({}, ())


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for folder in ("harness/patch", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "harness/patch/small.py").write_bytes(SOURCE)
    (tmp_path / "tests/test_small.py").write_text(TESTS)
    return tmp_path


def mutant(before: bytes, after: bytes) -> Mutant:
    found = mutants("harness/patch/small.py", SOURCE)
    return next(item for item in found if item.apply(SOURCE) == SOURCE.replace(before, after))


def run(repository: Path, before: bytes, after: bytes) -> tuple[str, str]:
    baseline = Baseline({}, ["tests/test_small.py::test_that_fails_anyhow"])
    files, log = ["tests/test_small.py"], repository / "log.txt"
    found = run_mutant(repository, mutant(before, after), files, baseline, log)
    assert (repository / "harness/patch/small.py").read_bytes() == SOURCE
    return found.verdict, found.test.rpartition("::")[2]


def test_a_wrong_mutant_is_killed_and_an_equivalent_one_survives(repository: Path) -> None:
    assert run(repository, b"if a > b", b"if (not (a > b))") == ("killed", "test_largest")
    assert run(repository, b"a > b", b"a >= b") == ("survived", "")


def test_a_mutant_may_wait_but_not_compute_for_longer_than_its_limit(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "GRACE", 0.5)
    monkeypatch.setattr(trial, "PATIENCE", 1000.0)
    assert run(repository, b"a > b", b"a >= b") == ("survived", "")
    assert run(repository, b"n -= 1", b"pass") == ("timeout", "test_count")


def test_a_mutant_that_waits_forever_is_stopped(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "GRACE", 0.3)
    assert run(repository, b"n -= 0.5", b"pass") == ("timeout", "test_sleep")


def test_the_baseline_names_the_tests_that_fail_without_a_mutation(repository: Path) -> None:
    log = repository / "log.txt"
    found = run_tests(repository, ["tests/test_small.py"], EMPTY, log)
    assert found.failed == ["tests/test_small.py::test_that_fails_anyhow"]
    assert len(found.durations) == 4


def test_results_are_read_back_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    wrong, equivalent = mutant(b"if a > b", b"if (not (a > b))"), mutant(b"a > b", b"a >= b")
    for result in (
        Result(wrong, "survived", "", 1.0),
        Result(equivalent, "survived", "", 1.0),
        Result(wrong, "timeout", "tests/t.py::t", 2.0),
    ):
        append(path, result)
    results = read(path)
    assert results[wrong].verdict == "timeout"
    assert "| patch | 2 | 1 | 1 | 1 | 50.0% |" in summary(results.values())
