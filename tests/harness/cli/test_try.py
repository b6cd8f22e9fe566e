"""`harness try`: Python on the unbroken and on the broken engine, side by side."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.cli.terminal import CTRL_D, dialogue
from tests.harness.command import harness

PAGE = "mul-swapped-operands"


def tried(code: str, *options: str) -> list[str]:
    done = harness("try", PAGE, "--probe", "split-evenly", "-c", code, *options)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_one_expression_is_evaluated_on_both_engines_with_the_leaves_of_the_probe() -> None:
    assert tried("y.sum().backward(); a.grad") == [
        "unbroken  array([3., 4., 1., 2.])",
        "broken    array([1., 2., 3., 4.])",
    ]


def test_what_is_the_same_on_both_is_shown_once() -> None:
    assert tried("a.data + 1") == ["both      array([2., 3., 4., 5.])"]
    assert tried("b = 1") == []


def test_an_exception_is_an_answer() -> None:
    assert tried("1 / 0") == ["both      ZeroDivisionError: division by zero"]
    assert tried("raise SystemExit") == ["both      SystemExit"]


def test_the_leaves_are_tensors_of_the_engine_that_harness_toml_names(tmp_path: Path) -> None:
    engine = Path(__file__).parents[2] / "engines/closures.py"
    (tmp_path / "closures.py").write_text(engine.read_text())
    (tmp_path / "harness.toml").write_text('[engine]\ntarget = "closures.py:Tensor"\n')
    code = "y.sum().backward(); np.allclose(x.grad, 2 * x.data + 1)"
    arguments = ("try", "assign-not-accumulate", "--probe", "reused-leaf", "-c", code)
    done = harness(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["unbroken", "True", "broken", "False"]


@pytest.mark.parametrize("encoding", ["utf-8:surrogateescape", "utf-8:strict"])
def test_bytes_that_are_no_text_are_an_entry_like_any_other(encoding: str) -> None:
    command = [sys.executable, "-m", "harness", "try", PAGE]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    typed = b"'\xff'\n1 + 1\n"
    done = subprocess.run(
        command, input=typed, capture_output=True, env=environment, timeout=60, check=True
    )
    assert done.stderr == b""
    assert "both      '\ufffd'\n" in done.stdout.decode()
    assert "both      2\n" in done.stdout.decode()


def test_json_has_both_answers() -> None:
    done = harness("try", PAGE, "-c", "a.shape", "--json")
    assert json.loads(done.stdout) == {"schema": 1, "unbroken": "(4, 3)", "broken": "(4, 3)"}
    assert harness("try", PAGE, "--json").returncode == 2


def test_a_probe_that_the_page_does_not_have_is_refused_with_those_that_it_has() -> None:
    done = harness("try", PAGE, "-c", "a", "--probe", "sum-rows")
    assert done.returncode == 2
    assert "its probes are mul, square, reshape-inside, split-evenly, sub" in done.stderr


@pytest.mark.parametrize("page", ["no-warmup", "stopped-by-what-it-trains-on"])
def test_a_page_without_probes_names_the_command_that_runs_it(page: str) -> None:
    done = harness("try", page, "-c", "a")
    assert done.returncode == 2
    assert "has no such probe with leaves" in done.stderr
    assert f"remedy: harness break {page}\n" in done.stderr


def test_lines_build_on_each_other_and_a_block_may_have_several() -> None:
    keys = ["y.sum().backward()\n", "def half(x):\n", "    return x / 2\n", "\n"]
    keys += ["half(a.grad)\n", CTRL_D]
    done = dialogue(
        ["try", PAGE, "--probe", "split-evenly"], keys, prompts=(">>> ", "... "), columns=80
    )
    assert done.status == 0
    assert "a = lib.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)" in done.lines
    assert "unbroken  array([1.5, 2. , 0.5, 1. ])" in done.lines
    assert "broken    array([0.5, 1. , 1.5, 2. ])" in done.lines
