"""docs/your-course.md: every command of the guide runs, and prints the lines that it shows."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import msgspec
import pytest

from tests.harness.report.published import Gradescope
from tests.harness.report.test_grading_guide import SCRIPTS
from tests.suites import PLUGIN

ROOT = Path(__file__).parents[3]
COURSES = ROOT / "tests" / "engines" / "courses"
GUIDE = (ROOT / "docs" / "your-course.md").read_text(encoding="utf-8")
ENGINES, KIT = GUIDE.split("\n## A kit")
SECTIONS = {
    "needle": (
        "needle",
        "python/needle",
        """
        import sys

        sys.path.append("python")
        import needle as ndl

        def test_product():
            a, b = ndl.Tensor([2.0]), ndl.Tensor([5.0])
            (a * b).sum().backward()
            assert (a.grad.numpy(), b.grad.numpy()) == (5.0, 2.0)
        """,
    ),
    "MiniTorch": (
        "scalar.py",
        "minitorch/scalar.py",
        """
        from minitorch.scalar import Scalar

        def test_product():
            a, b = Scalar(2.0), Scalar(5.0)
            (a * b).backward()
            assert (a.derivative, b.derivative) == (5.0, 2.0)
        """,
    ),
    "TinyTorch": (
        "tinytorch.py",
        "tinytorch.py",
        """
        from tinytorch import Tensor

        def test_product():
            a, b = Tensor([2.0], requires_grad=True), Tensor([5.0], requires_grad=True)
            (a * b).sum().backward()
            assert (a.grad, b.grad) == (5.0, 2.0)
        """,
    ),
    "Layers in pairs": (
        "cs231n",
        ".",
        """
        import numpy as np
        from layers import relu_backward, relu_forward

        def test_relu():
            out, cache = relu_forward(np.array([-1.0, 2.0]))
            assert relu_backward(np.array([3.0, -1.0]), cache).tolist() == [0.0, -1.0]
        """,
    ),
}
"""Where the engine of each section comes from, where the guide has it, and tests for it."""


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def run(script: str, folder: Path, **variables: str) -> str:
    """Run shell commands in a folder, with the commands of this source, and return their output."""
    commands = {
        "harness": [sys.executable, "-m", "harness"],
        "pytest": [sys.executable, "-m", "pytest", *PLUGIN, "-p", "no:xdist"],
        "zip": [sys.executable, "-m", "zipfile", "-c"],
    }
    path = folder.parent / "bin"
    path.mkdir(exist_ok=True)
    for name, words in commands.items():
        shift = "shift\n" if name == "zip" else ""  # `-r`, which Python does without
        (path / name).write_text(f'#!/bin/sh\n{shift}exec {shlex.join(words)} "$@"\n')
        (path / name).chmod(0o755)
    environment = {"PATH": f"{path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={
            **os.environ,
            "COLUMNS": "80",
            "PYTHONIOENCODING": "utf-8",
            **environment,
            **variables,
        },
        capture_output=True,
        encoding="utf-8",
        timeout=500,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


def missing(text: str, output: str) -> list[str]:
    """The lines of a block that are not in the output."""
    assert text
    return [line for line in text.splitlines() if line not in output]


@pytest.mark.slow
@pytest.mark.parametrize("title", SECTIONS)
def test_the_commands_for_an_engine_print_what_the_guide_shows(title: str, tmp_path: Path) -> None:
    name, place, suite = SECTIONS[title]
    folder = tmp_path / "assignment"
    source, target = COURSES / name, folder / place
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy(source, target)
        if target.parent != folder:
            (target.parent / "__init__.py").touch()
    (folder / "test_engine.py").write_text(textwrap.dedent(suite))
    section = ENGINES.partition(f"### {title}")[2].partition("\n##")[0]
    (settings,), (script,), (text,) = (blocks(section, name) for name in ("toml", "sh", "text"))
    assert len(settings.splitlines()) <= 4
    (folder / "harness.toml").write_text(settings)
    output = run(script, folder)
    assert missing(text, output) == []
    assert " breaks (" in output  # the score of `pytest --breaks`
    for code in blocks(section, "python"):
        assert textwrap.indent(code, "    ") in (folder / "tensor.py").read_text()


def test_the_class_for_layers_in_pairs_is_as_long_as_the_guide_says() -> None:
    lines = (COURSES / "cs231n" / "tensor.py").read_text().splitlines()
    assert f"has {len(lines)} lines" in ENGINES


@pytest.mark.slow
def test_the_kit_is_filled_in_and_grades_as_the_guide_says(tmp_path: Path) -> None:
    folder = tmp_path / "kit"
    (folder / "public").mkdir(parents=True)
    shutil.copy(COURSES / "tinytorch.py", folder)
    (settings,) = blocks(ENGINES.partition("### TinyTorch")[2].partition("\n##")[0], "toml")
    (folder / "harness.toml").write_text(settings)
    units, weights = blocks(KIT, "toml")
    (folder / "public" / "course.toml").write_text(units)
    (folder / "weights.toml").write_text(weights)
    (suite,), (autograder,) = blocks(KIT, "python"), blocks(KIT, "bash")
    public, new, grade, archive = blocks(KIT, "sh")
    of_public, of_grade = blocks(KIT, "text")

    (folder / "test_engine.py").write_text(suite)
    assert missing(of_public, run(public, folder)) == []
    for path in ("submission", "submissions/ada"):
        (folder / path).mkdir(parents=True)
        shutil.copy(folder / "test_engine.py", folder / path)
    run(f"set -e\n{new}", folder)
    assert missing(of_grade, run(f"set -e\n{grade}", folder)) == []
    titles = (folder / "results" / "scores.csv").read_text().splitlines()[0]
    assert titles.endswith("family q1-chain-rule,family q2-broadcasting")

    (folder / "setup.sh").write_text(SCRIPTS["setup.sh"])
    (folder / "run_autograder").write_text(autograder)
    run(f"set -e\n{archive}", folder)
    root = tmp_path / "auto grader"
    (root / "results").mkdir(parents=True)
    shutil.copytree(folder / "submission", root / "submission")
    with zipfile.ZipFile(folder / "autograder.zip") as files:
        assert files.getinfo("run_autograder").external_attr >> 16 & 0o111
        files.extractall(root / "source")
    run("bash ./source/run_autograder", root, AUTOGRADER=str(root))
    text = (root / "results" / "results.json").read_text()
    results = msgspec.json.decode(text, type=Gradescope)
    assert results.score == pytest.approx(20 / 3, abs=0.01)
    assert not re.search("product-seen|column-not|q1-|q2-", text)
