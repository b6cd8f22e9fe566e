"""A benchmark is fair if all contestants compute the same. Speed is not tested."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

Run = tuple[list[dict[str, Any]], str, Path]
"""The rows, the table, and the plot."""

ONE = "16-32-10 float64 numpy"
"""The row of the default tier."""

TOLERANCE = {"float64": 1e-9, "float32": 1e-3}


@pytest.fixture(scope="module", params=[ONE, pytest.param("", marks=pytest.mark.slow)])
def only(request: pytest.FixtureRequest) -> str:
    """A part of the names of the rows that are measured."""
    return str(request.param)


@pytest.fixture(scope="module")
def run(only: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    plot = tmp_path_factory.mktemp("plot") / "cost.svg"
    command = [sys.executable, "-m", "tests.benchmarks.engine", "--quick", "--json"]
    command += ["--only", only]
    if find_spec("matplotlib"):
        command += ["--plot", str(plot)]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert child.returncode == 0, child.stdout + child.stderr
    return json.loads(child.stdout)["rows"], child.stderr, plot


def test_contestants_compute_the_same_loss_and_gradients(run: Run, only: str) -> None:
    results, _, _ = run
    compared = [result for result in results if result["ratio"]]
    libraries = {"numpy"} if only else {"numpy", "torch", "autograd"}
    assert libraries <= {result["row"]["against"] for result in compared}
    for result in compared:
        assert result["difference"] <= TOLERANCE[result["row"]["dtype"]], result


def test_a_row_is_measured_or_says_what_is_missing(run: Run) -> None:
    results, _, _ = run
    for result in results:
        if result["outcome"] == "measured":
            assert result["ratio"] or result["growth"], result
        else:
            assert result["outcome"] == "skipped"
            assert result["reason"].endswith("is not installed"), result


def test_the_table_has_every_row_within_80_columns(run: Run, only: str) -> None:
    results, table, _ = run
    lines = table.splitlines()
    assert max(map(len, lines)) <= 80
    for row in (result["row"] for result in results):
        assert any(line.startswith(row["shown"]) and row["against"] in line for line in lines), row
    assert len(results) == (1 if only else 22)


@pytest.mark.skipif(not find_spec("matplotlib"), reason="the plot needs matplotlib")
def test_the_plot_shows_both_graphs(run: Run) -> None:
    _, _, plot = run
    assert plot.read_text("utf-8").startswith("<?xml")
