"""A break that is swapped is judged like one that is imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.suites import ROOT, SUITES

SELECTION = "family:broadcasting,tape-gradient-in-target-shape"


@pytest.mark.slow
@pytest.mark.parametrize(
    "suite",
    [suite for suite in SUITES if Path(suite).stem != "__init__"],
    ids=lambda path: Path(path).stem,
)
def test_swapped_breaks_are_judged_like_imported_ones(suite: str) -> None:
    """In a process of its own: this one has imported the unbroken engine."""
    command = [sys.executable, "-m", "tests.benchmarks.suites", suite, "--breaks", SELECTION]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert Path(suite).stem in done.stdout
