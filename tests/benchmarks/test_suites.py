"""A break that is swapped is judged like one that is imported."""

import subprocess
import sys

import pytest

from tests.benchmarks.suites import ROOT

SELECTION = "skip-unbroadcast,tape-gradient-in-target-shape"


@pytest.mark.slow
def test_swapped_breaks_are_judged_like_imported_ones() -> None:
    """In a process of its own: this one has imported the unbroken engine."""
    suite = ROOT / "tests/suites/course.py"
    command = [sys.executable, "-m", "tests.benchmarks.suites", str(suite), "--breaks", SELECTION]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert suite.stem in done.stdout
