"""A benchmark is fair if all contestants compute the same. How fast they are is no test."""

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

TOLERANCE = {"float64": 1e-9, "float32": 1e-3}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    plot = tmp_path_factory.mktemp("plot") / "cost.svg"
    command = [sys.executable, "-m", "tests.benchmarks.engine", "--quick", "--json"]
    if find_spec("matplotlib"):
        command += ["--plot", str(plot)]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert child.returncode == 0, child.stdout + child.stderr
    return json.loads(child.stdout)["rows"], child.stderr, plot


def test_contestants_compute_the_same_loss_and_gradients(run: Run) -> None:
    results, _, _ = run
    compared = [result for result in results if result["ratio"]]
    assert {"numpy", "torch", "autograd"} <= {result["row"]["against"] for result in compared}
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


def test_the_table_has_every_row_within_80_columns(run: Run) -> None:
    results, table, _ = run
    lines = table.splitlines()
    assert max(map(len, lines)) <= 80
    for row in (result["row"] for result in results):
        assert any(line.startswith(row["shown"]) and row["against"] in line for line in lines), row
    assert len(results) == 20


@pytest.mark.skipif(not find_spec("matplotlib"), reason="the plot needs matplotlib")
def test_the_plot_shows_both_graphs(run: Run) -> None:
    _, _, plot = run
    assert plot.read_text("utf-8").startswith("<?xml")
