"""The reasons of survivors: a test that is written from the reason kills the break."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.suites import ROOT, Suite

INPUTS = {
    "matmul-t-instead-of-swapaxes": "square",
    "matmul-no-transpose": "equal-shapes",
    "skip-unbroadcast-matmul": "equal-shapes",
    "skip-unbroadcast-div": "equal-shapes",
}
"""Breaks that the inputs of `course.py` hide, and a property of these."""

ASSERTIONS = ("skip-unbroadcast-mul", "unbroadcast-no-keepdims", "unbroadcast-lead-only")
"""Breaks with a wrong number in `test_gradients_exist`."""


def entries(name: str, folder: Path) -> dict[str, dict[str, Any]]:
    """Run one of the suites on these breaks, and return what became of each."""
    report = folder / "report.json"
    arguments = Suite(name, "", (f"tests/suites/{name}.py",)).arguments
    selection = ",".join([*INPUTS, *ASSERTIONS])
    options = [f"--breaks={selection}", f"--breaks-json={report}"]
    command = [sys.executable, "-m", "pytest", *arguments, *options]
    subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
    return {entry["break"]: entry for entry in json.loads(report.read_text())["breaks"]}


def test_the_reason_says_what_is_missing(tmp_path: Path) -> None:
    found = entries("course", tmp_path)
    for name, kind in INPUTS.items():
        reason = found[name]["reason"]
        assert reason["kind"] == "inputs", name
        assert kind in [one["kind"] for one in reason["common"]], name
    for name in ASSERTIONS:
        reason = found[name]["reason"]
        assert reason["kind"] == "assertion", name
        assert reason["test"].endswith("::test_gradients_exist"), name


def test_tests_that_are_written_from_the_reasons_kill(tmp_path: Path) -> None:
    found = entries("course_gaps", tmp_path)
    assert {name: entry["fate"] for name, entry in found.items() if entry["fate"] != "killed"} == {}
    by = {name: entry["by"][0].rpartition("::")[2] for name, entry in found.items()}
    assert {by[name] for name in ASSERTIONS} == {"test_gradients_exist"}
