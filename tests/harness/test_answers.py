"""Independent answers: asked once, kept under all that they depend on, never stale."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness import answers
from harness.answers import ask_library
from harness.diagnostics import Skipped
from harness.probe import Probe, read_probes
from harness.run import Run

TEXT = "def square(a=[1.0, 2.0]):\n    'A square.'\n    return a**2\n"


def probe_of(text: str = TEXT) -> Probe:
    return read_probes(text, "p.py")[0]


def gradient(answer: Run | Skipped) -> list[float]:
    assert isinstance(answer, Run), answer
    found = answer.gradients["a"]
    assert found is not None
    return [float(x) for x in found.numpy()]


def test_torch_answers_the_same_text(tmp_path: Path) -> None:
    answer = ask_library("torch", [(probe_of(), "uniform")], tmp_path)["square", "uniform"]
    assert gradient(answer) == [2.0, 4.0]
    assert isinstance(answer, Run)
    assert answer.output is not None
    np.testing.assert_array_equal(answer.output.numpy(), [1.0, 4.0])


def test_torch_is_not_imported_into_this_process_for_it(tmp_path: Path) -> None:
    imported = "torch" in sys.modules
    ask_library("torch", [(probe_of(), "uniform")], tmp_path)
    assert ("torch" in sys.modules) == imported


def test_an_answer_is_kept_and_not_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ask_library("torch", [(probe_of(), "weighted")], tmp_path)
    monkeypatch.setattr(answers, "run_isolated", None)
    assert ask_library("torch", [(probe_of(), "weighted")], tmp_path) == first


@pytest.mark.parametrize("change", ["text", "loss", "release", "numpy", "observer"])
def test_whatever_an_answer_depends_on_is_in_its_key(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = probe_of()
    before = answers._key(answers.TORCH, probe, "uniform")
    assert before == answers._key(answers.TORCH, probe_of(), "uniform")
    if change == "release":
        monkeypatch.setattr(answers, "version", lambda _: "0.0.0")
    if change == "numpy":
        monkeypatch.setattr(np, "__version__", "0.0.0")
    if change == "observer":
        monkeypatch.setattr(answers, "_observer", lambda: "another")
    if change == "text":
        probe = replace(probe, source=TEXT.replace("**2", "**3"))
    after = answers._key(answers.TORCH, probe, "weighted" if change == "loss" else "uniform")
    assert after != before


def test_a_kept_answer_that_cannot_be_read_is_asked_for_again(tmp_path: Path) -> None:
    first = ask_library("torch", [(probe_of(), "uniform")], tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"\xc1 no answer")
    again = ask_library("torch", [(probe_of(), "uniform")], tmp_path)
    assert gradient(again["square", "uniform"]) == gradient(first["square", "uniform"])


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    answer = ask_library("torch", [(probe_of(), "uniform")], tmp_path / "file" / "folder")
    assert gradient(answer["square", "uniform"]) == [2.0, 4.0]


def test_a_library_that_is_not_installed_is_a_reason_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answers, "find_spec", lambda _: None)
    (answer,) = ask_library("torch", [(probe_of(), "uniform")]).values()
    assert answer == Skipped("torch is not installed: pip install 'breaklab[torch]'")
