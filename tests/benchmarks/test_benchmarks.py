"""The benchmarks run, and compare what is comparable. Speed is not tested."""

import ast
import os
import random
import re
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from harness.report.documents import END, with_text
from tests.benchmarks import words
from tests.benchmarks.cohort import HANGING, HOSTILE, SUITES, is_assertion, weakened, write_course
from tests.benchmarks.commands import watch
from tests.benchmarks.engine import (
    PAGE,
    ROOT,
    ROWS,
    START,
    Result,
    difference,
    markdown,
)


def quick(command: str, *arguments: str) -> str:
    """What it prints."""
    child = subprocess.run(
        [sys.executable, "-m", f"tests.benchmarks.{command}", "--quick", *arguments],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert child.returncode == 0, child.stdout + child.stderr
    assert max(map(len, child.stdout.splitlines())) <= 80
    return child.stdout


def test_a_measured_table_can_replace_the_one_on_the_page() -> None:
    made = markdown({row: Result("skipped", "no library") for row in ROWS}, 1.0)
    page = with_text(PAGE.read_text(encoding="utf-8"), made, START)
    assert made in page
    assert re.search(r"^Measured on \d{4}-\d\d-\d\d, .+; Python 3\.\d+\.\d+, numpy \d", made)
    assert all(row.title in page for row in ROWS)
    assert "## Mutants of rules" in page


def test_only_the_table_on_the_page_is_replaced() -> None:
    page = f"before\n{START}old\n{END}after\n"
    assert with_text(page, "new\n", START) == f"before\n{START}new\n{END}after\n"
    with pytest.raises(ValueError, match="no markers"):
        with_text("without a table", "new\n", START)


@pytest.mark.parametrize(
    "only", ["16-32-10 float64 numpy", pytest.param("", marks=pytest.mark.slow)]
)
def test_each_row_is_measured_or_says_what_is_missing(only: str) -> None:
    """A row whose contestants disagree ends the benchmark with status 1."""
    lines = quick("engine", "--only", only).splitlines()
    for row in (row for row in ROWS if only in row.name):
        title = f"{row.title} {row.dtype.replace('float', 'f')}"
        title += ", memory" if row.measure == "memory" else ""
        (line,) = [x for x in lines if x.startswith(f"{title} ") and row.against in x]
        assert line.split()[-1] in ("reached", "missed") or "is not installed" in lines[-1]


class Contestant:
    def __init__(self, *arrays: np.ndarray) -> None:
        self.arrays = list(arrays)

    def step(self) -> None:
        pass

    def computed(self, _: None) -> list[np.ndarray]:
        return self.arrays


def test_contestants_that_compute_something_else_are_told_apart() -> None:
    loss, gradient = np.array(2.0), np.array([1.0, -4.0])
    ours = Contestant(loss, gradient)
    assert difference(ours, Contestant(loss, gradient)) == 0
    assert difference(ours, Contestant(loss, gradient * 1.01)) == pytest.approx(0.01, rel=0.02)
    for other in (gradient[:1], gradient.astype(np.float32)):
        with pytest.raises(AssertionError, match="is not"):
            difference(ours, Contestant(loss, other))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="resource and /proc")
def test_the_commands_are_measured() -> None:
    lines = quick("commands").splitlines()
    assert [line.split()[2] for line in lines if "it imports" in line] == ["nothing", "libcst,"]
    for what in ("break, runs cached", "matrix of 6, cold", "matrix, one page's patch"):
        assert any(line.startswith(what) for line in lines), what
    (memory,) = [line for line in lines if line.startswith("memory in all, cold")]
    assert int(memory.split()[4]) > 50


@pytest.mark.slow
def test_the_growth_is_measured_and_drawn(tmp_path: Path) -> None:
    drawn = bool(find_spec("matplotlib"))
    table = quick("scaling", *(["--plot", str(tmp_path / "a.svg")] if drawn else []))
    assert table.count("exponent") == 2
    if drawn:
        assert (tmp_path / "a.svg").read_text("utf-8").startswith("<?xml")


HELD = "import time; held = bytearray(80_000_000); held[::4096] = b'x' * len(held[::4096]);"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="no /proc")
def test_the_memory_of_all_processes_counts_and_what_they_share_counts_once(tmp_path: Path) -> None:
    def peak(code: str) -> int:
        return watch((sys.executable, "-c", code), tmp_path, dict(os.environ)).memory

    one = peak(HELD + "time.sleep(1)")
    shared = peak(HELD + "import os; child = os.fork(); time.sleep(1)")
    fork = "import os; child = os.fork();"
    both = peak(fork + HELD + "time.sleep(1)")
    assert 80e6 < one < 150e6
    assert shared < 1.3 * one
    assert both > 160e6


def test_a_command_that_fails_is_an_error_and_one_that_disagrees_is_not(tmp_path: Path) -> None:
    watch((sys.executable, "-c", "raise SystemExit(1)"), tmp_path, dict(os.environ))
    fails = "import sys; print('no such thing', file=sys.stderr); sys.exit(3)"
    with pytest.raises(RuntimeError, match="no such thing"):
        watch((sys.executable, "-c", fails), tmp_path, dict(os.environ))


# ----- The synthetic course -----


def files_in(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.py")}


def test_a_course_is_drawn_by_its_seed(tmp_path: Path) -> None:
    for name, seed in {"first": 1, "again": 1, "other": 2}.items():
        write_course(tmp_path / name, 200, seed)
    first = files_in(tmp_path / "first")
    assert files_in(tmp_path / "again") == first
    assert files_in(tmp_path / "other") != first
    texts = Counter(first.values())
    assert sum(texts[text] for text in HOSTILE.values()) == 4
    assert sum(texts[text] for text in HANGING.values()) == 2
    assert len(first) == 200


@pytest.mark.parametrize("suite", SUITES, ids=lambda path: path.stem)
def test_a_weakened_suite_has_tests_and_fewer_assertions(suite: Path) -> None:
    sizes = set()
    for seed in range(20):
        tree = ast.parse(weakened(suite.read_text(), random.Random(seed)))
        names = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        assert any(name.startswith("test_") for name in names)
        sizes.add(sum(map(is_assertion, ast.walk(tree))))
    assert len(sizes) > 2


def test_the_first_word_of_a_command_comes_before_its_last() -> None:
    first, last, processor_time = words.run(["explain", "silent"])
    assert 0 < first <= last
    assert processor_time > 0


def test_a_sign_that_a_command_is_at_work_is_not_its_first_word() -> None:
    working = b"\x1b[?25l\x1b[32m-\x1b[0m Reading the engine ..."
    assert words.lasting(working) == ""
    assert words.lasting(working + b"\r\x1b[?25h\r\x1b[1A\x1b[2K\x1b[1mWhy\x1b[0m") == "Why"
