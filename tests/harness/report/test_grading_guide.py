"""The second half of docs/grading.md: its scripts run, and its files are read."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from harness.grade import settings
from harness.grade.suite import Weights, read_weights
from harness.plugin import entry
from tests.harness.bundled import bundled_pages
from tests.harness.command import harness
from tests.harness.report.published import Gradescope, PrairieLearn

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "grading.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", DOCUMENT, re.M | re.S)
SCRIPTS = {
    name: text
    for language, text in BLOCKS
    if language == "bash" and (name := text.splitlines()[1].removeprefix("# ").partition(":")[0])
}

FEW = "--select sub-sign,tanh-uses-input --correct sub-is-add-of-neg"

(STRONG,) = (text for language, text in BLOCKS if language == "python")

WRONG = "def test_wrong():\n    assert 1 == 2\n"


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def run(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the guide, with the harness of this source on its path and two breaks."""
    command = folder / "bin" / "harness"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m harness "$@" {FEW}\n')
    command.chmod(0o755)
    file = folder / "script"
    file.write_text(SCRIPTS[script])
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, **variables, "PATH": path, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", str(file)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def test_the_guide_has_its_scripts_and_bash_can_read_them() -> None:
    assert SCRIPTS.keys() == {"setup.sh", "run_autograder", "grade.sh"}
    for text in [*SCRIPTS.values(), *blocks("sh")]:
        done = subprocess.run(
            ["bash", "-n"], input=text, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_the_weights_in_the_guide_are_valid(tmp_path: Path) -> None:
    (text,) = blocks("toml")
    file = tmp_path / "weights.toml"
    file.write_text(text)
    weights = read_weights(file, bundled_pages())
    assert weights != Weights()
    assert weights.points == 20


def test_the_question_in_the_guide_starts_its_script() -> None:
    (text,) = blocks("json")
    options = json.loads(text)["externalGradingOptions"]
    assert options["entrypoint"].endswith("/breaklab/grade.sh")
    assert options["serverFilesCourse"] == ["breaklab/"]
    assert options["timeout"] <= 600  # the largest that PrairieLearn allows


def test_the_options_of_pytest_in_the_guide_exist() -> None:
    source = Path(entry.__file__).read_text(encoding="utf-8")
    named = set(re.findall(r"--breaks[\w-]*", DOCUMENT))
    assert {option for option in named if f'"{option}"' not in source} == set()
    (workflow,) = blocks("yaml")
    assert re.search(r"--breaks-sarif (\S+)", workflow)[1] in workflow.partition("sarif_file:")[2]


def test_the_options_of_the_command_in_the_guide_exist() -> None:
    text = "".join(harness(name, "--help").stdout for name in ("grade", "cohort", "merge"))
    about = re.sub("`python -m tests[^`]*`", "", DOCUMENT.partition("## Grading suites")[2])
    named = set(re.findall(r"--(?!breaks)[a-z][\w-]+", about))
    kept = Path(settings.__file__).read_text(encoding="utf-8")  # options of pytest that count
    assert named
    assert {option for option in named if option not in text and f'"{option}"' not in kept} == set()


@pytest.mark.parametrize("suite", [STRONG, pytest.param(WRONG, marks=pytest.mark.slow)])
def test_the_autograder_writes_what_gradescope_reads(suite: str, tmp_path: Path) -> None:
    root = tmp_path / "auto grader"
    for folder in ("submission", "source", "results"):
        (root / folder).mkdir(parents=True)
    (root / "submission" / "test_mine.py").write_text(suite)
    (root / "source" / "weights.toml").write_text("points = 20\n")
    done = run("run_autograder", tmp_path, AUTOGRADER=str(root))
    assert done.returncode == 0, done.stderr
    text = (root / "results" / "results.json").read_text()
    results = msgspec.json.decode(text, type=Gradescope)
    assert results.extra_data["gradable"] == (suite == STRONG)
    assert results.score is not None
    assert (0 < results.score < 20) == (suite == STRONG)


def test_the_grader_writes_what_prairielearn_reads(tmp_path: Path) -> None:
    root = tmp_path / "grade"
    (root / "student").mkdir(parents=True)
    (root / "student" / "test_mine.py").write_text(WRONG)
    done = run("grade.sh", tmp_path, GRADE=str(root))
    assert done.returncode == 0, done.stderr
    text = (root / "results" / "results.json").read_text()
    results = msgspec.json.decode(text, type=PrairieLearn)
    assert not results.gradable
    assert results.format_errors
