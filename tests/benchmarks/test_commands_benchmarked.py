"""The benchmarks of the runner work. Speed is not tested."""

import ast
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from harness.patch import apply_patch, parse_patch
from tests.benchmarks.mutation_tools import MUTATED, Verdicts, run_ours, write_pages
from tests.benchmarks.mutations import mutations
from tests.benchmarks.processes import watched
from tests.benchmarks.runner import Row

ROOT = Path(__file__).parents[2]


def quick(command: str, *arguments: str) -> tuple[Any, str]:
    """What it says to programs, and its table."""
    child = subprocess.run(
        [sys.executable, "-m", f"tests.benchmarks.{command}", "--quick", "--json", *arguments],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert child.returncode == 0, child.stdout + child.stderr
    assert max(map(len, child.stderr.splitlines())) <= 80
    return json.loads(child.stdout), child.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="resource and /proc")
def test_the_commands_are_measured() -> None:
    rows, table = quick("runner")
    found = {row["what"]: row for row in rows}
    kept, run = found["break, report cached"], found["break, runs cached"]
    assert 0.1 < kept["ratio"] < run["ratio"]
    assert [row["found"] for row in rows if row["what"] == "  it imports"] == [
        "nothing",
        "libcst, numpy",
    ]
    cold, warm = found["matrix of 6, cold"], found["matrix, nothing changed"]
    assert cold["ratio"] > warm["ratio"] > 0
    assert 50 < found["memory in all, cold"]["ratio"] < 100_000
    for row in rows:
        assert row["what"] in table
        assert row["verdict"] in table


@pytest.mark.slow
def test_our_mutants_are_tried_and_a_missing_tool_is_named() -> None:
    (ours, unconfined, *_), table = quick("mutation_tools")
    assert ours["mutants"] == unconfined["mutants"] == 10
    assert 0 <= ours["survivors"] == unconfined["survivors"] < 10
    for tool in ("mutmut", "cosmic_ray"):
        name = tool.replace("_", "-")
        assert (f"{name} is not installed: pip install" in table) is not bool(find_spec(tool))


@pytest.mark.slow
def test_the_growth_is_measured_and_drawn(tmp_path: Path) -> None:
    drawn = bool(find_spec("matplotlib"))
    growths, table = quick("scaling", *(["--plot", str(tmp_path / "a.svg")] if drawn else []))
    assert [growth["of"] for growth in growths] == ["breaks", "probes"]
    for growth in growths:
        assert growth["sizes"][-1] == 32
        assert all(len(spent) == len(growth["sizes"]) for spent in growth["seconds"].values())
        assert min(growth["seconds"]["try"]) > 0
    assert "exponent" in table
    if drawn:
        assert (tmp_path / "a.svg").read_text("utf-8").startswith("<?xml")


# ----- What they are made of -----


@pytest.mark.slow
def test_each_mutant_is_another_engine_that_is_python() -> None:
    text = (MUTATED / "small.py").read_text("utf-8")
    hunks, results = list(mutations(text)), set()
    for hunk in hunks:
        patched = apply_patch(parse_patch(hunk, path="mutant", line=1), {"small.py": text})
        assert ast.dump(ast.parse(patched.sources["small.py"])) != ast.dump(ast.parse(text))
        results.add(patched.sources["small.py"])
    assert len(set(hunks)) == len(hunks) > 200
    assert len(results) > 0.95 * len(hunks)


@pytest.mark.parametrize(
    ("code", "mutant"),
    [
        ("x = a + 1", "a - 1"),
        ("x = a + 1", "a + 2"),
        ("x = a + 1", "a + 0"),
        ("x = -a", "a"),
        ("x = f(a, key=b)", "f(None, key=b)"),
        ("x = f(a, key=b)", "f(a)"),
        ("x = lambda g: g", "lambda g: None"),
        ("x = a if b == 0 else True", "a if b != 0 else True"),
        ("x = a if b == 0 else True", "a if b == 0 else False"),
    ],
)
def test_a_mutant_changes_one_thing(code: str, mutant: str) -> None:
    before = code.removeprefix("x = ")
    hunks = list(mutations(f"def f(a, b):\n    {code}\n"))
    assert f"@@ f @@\n-{before}\n+{mutant}\n" in hunks


def test_a_mutant_is_killed_by_the_first_test_that_fails(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text("def square(x):\n    return x**2\n")
    suite = "def test_{}(lib):\n    assert lib.square({}) == {}\n"
    (tmp_path / "test_small.py").write_text(suite.format("a", 2, 4) + suite.format("b", 3, 9))
    write_pages(tmp_path, 10)
    assert run_ours(tmp_path) == Verdicts(mutants=3, survivors=0)
    (tmp_path / "test_small.py").write_text(suite.format("a", 1, 1))
    assert run_ours(tmp_path) == Verdicts(mutants=3, survivors=2)


HELD = "import time; held = bytearray(80_000_000); held[::4096] = b'x' * len(held[::4096]);"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="no /proc")
def test_the_memory_of_all_processes_counts_and_what_they_share_counts_once(tmp_path: Path) -> None:
    def peak(code: str) -> int:
        done = watched([sys.executable, "-c", code], tmp_path, dict(os.environ))
        assert done.memory is not None
        return done.memory

    one = peak(HELD + "time.sleep(1)")
    shared = peak(HELD + "import os; child = os.fork(); time.sleep(1)")
    fork = "import os; child = os.fork();"
    both = peak(fork + HELD + "time.sleep(1)")
    assert 80e6 < one < 150e6
    assert shared < 1.3 * one
    assert both > 160e6


def test_a_command_that_fails_is_an_error_and_one_that_disagrees_is_none(tmp_path: Path) -> None:
    watched([sys.executable, "-c", "raise SystemExit(1)"], tmp_path, dict(os.environ))
    with pytest.raises(RuntimeError, match="no such thing"):
        watched(
            [
                sys.executable,
                "-c",
                "import sys; print('no such thing', file=sys.stderr); sys.exit(3)",
            ],
            tmp_path,
            dict(os.environ),
        )


@pytest.mark.parametrize(
    ("found", "target", "verdict"),
    [(1.5, 1.5, "reached"), (1.51, 1.5, "missed"), (0.0, 0.0, "reached"), (1.0, None, "")],
)
def test_a_row_says_whether_its_target_is_reached(
    found: float, target: float | None, verdict: str
) -> None:
    assert Row("what", "found", ratio=found, target=target).verdict == verdict
