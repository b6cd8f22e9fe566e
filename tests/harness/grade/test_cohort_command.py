"""`harness cohort` and `harness merge`, with real suites."""

import json
import shutil
from pathlib import Path

import pytest

from harness.grade.cohort.grader import COPIES
from harness.sandbox.confinement import namespaces_available
from tests.harness.command import harness

ROOT = Path(__file__).parents[3]
SUITE = """
import numpy as np
from minigrad import tensor

def test_add():
    a = tensor(np.ones(3), requires_grad=True)
    (a + np.ones((4, 3))).sum().backward()
    assert a.grad.shape == (3,)
"""
CURIOUS = """
from pathlib import Path

def test_add():
    for folder in FOLDERS:
        assert not list(Path(folder).glob("*")), folder
"""
ONE = ("--select", "skip-unbroadcast,sub-sign", "--correct", "accumulate-in-place")
"""Few breaks and one variant, so that it is quick."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cohort with its results."""
    folder = tmp_path_factory.mktemp("course")
    (folder / "all" / "bea").mkdir(parents=True)
    (folder / "all" / "ada.py").write_text(SUITE)
    (folder / "all" / "bea" / "test_bea.py").write_text("def test_a():\n    assert object() == 1\n")
    folders = [str(path) for path in (folder / "all", folder / "out", COPIES)]
    (folder / "all" / "curious.py").write_text(CURIOUS.replace("FOLDERS", repr(folders)))
    (folder / "all" / "cleo").mkdir()
    (folder / "all" / "cleo" / "notes.txt").write_text("no tests")
    done = harness("cohort", "all", "--out", "out", *ONE, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    (folder / "weights.toml").write_text("[levels]\n" + "".join(f"{n} = 0\n" for n in range(1, 4)))
    (folder / "printed").write_text(done.stdout)
    return folder


@pytest.mark.skipif(not namespaces_available(), reason="needs namespaces")
def test_a_submission_sees_neither_the_others_nor_the_seed(folder: Path) -> None:
    assert "\ncurious.py,yes," in (folder / "out" / "scores.csv").read_text()


def test_the_scores_have_a_row_for_every_submission(folder: Path) -> None:
    head, *rows = (folder / "out" / "scores.csv").read_text().splitlines()
    assert head.endswith(",points,excluded,level 1,family broadcasting,family op-formulas")
    assert rows[:3] == [
        "ada.py,yes,,50,1,2,0,1,0,1,0,50,0,50,100,0",
        "bea,no,test_bea.py::test_a fails on the correct engine: AssertionError: assert <object "
        "object at 0x...> == 1 + where <object object at 0x...> = object(),,0,0,0,0,0,0,0,,1,,,",
        "cleo,no,there is no file test_*.py or *_test.py in it,,0,0,0,0,0,0,0,,0,,,",
    ]
    assert "| `sub-sign` | " in (folder / "out" / "missed.md").read_text()
    assert (folder / "printed").read_text().startswith("4 submissions graded: ")


def test_the_second_run_grades_nothing(folder: Path) -> None:
    stored = (folder / "out" / "results.jsonl").read_bytes()
    done = harness("cohort", "all", "--out", "out", *ONE, "--json", cwd=folder)
    assert json.loads(done.stdout)["submissions"][0]["score"] == 50
    assert (folder / "out" / "results.jsonl").read_bytes() == stored


def test_a_submission_is_graded_again_and_the_class_page_is_written(
    folder: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    stored = (copy / "out" / "results.jsonl").read_bytes()
    asked = ("--again", "ada.py", "--html", "class.html", "--lang", "es")
    done = harness("cohort", "all", "--out", "out", *ONE, *asked, cwd=copy)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ada.py: 50 %, and 50 % before\n4 submissions graded: ")
    assert (copy / "out" / "results.jsonl").read_bytes().startswith(stored + b'{"submission":"ada')
    page = (copy / "class.html").read_text()
    assert "<summary>100 %</summary><p>ada.py, curious.py</p>" in page
    assert "pruebas simples" in page
    unknown = harness("cohort", "all", "--out", "out", *ONE, "--again", "ade.py", cwd=copy)
    assert "remedy: did you mean `ada.py`" in unknown.stderr


def test_a_cohort_refuses_copies_of_the_engine_on_request(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    copied = (ROOT / "minigrad" / "broadcasting.py").read_text()
    (tmp_path / "all" / "ada.py").write_text(f"COPY = {copied!r}\n{SUITE}")
    done = harness("cohort", "all", "--out", "out", *ONE, "--no-copy", cwd=tmp_path)
    assert "copied from the engine, and copies are not allowed" in done.stdout
    done = harness("cohort", "all", "--out", "out", *ONE, cwd=tmp_path)
    assert "under other conditions: --allow-copy" in done.stderr


@pytest.mark.parametrize("merged", [False, True])
def test_weights_and_feedback_may_be_chosen_afterwards(
    folder: Path, tmp_path: Path, merged: bool
) -> None:
    (tmp_path / "weights.toml").write_text("points = 20\n[breaks]\nskip-unbroadcast = 3\n")
    chosen = ("--weights", str(tmp_path / "weights.toml"), "--feedback", "stage")
    copy = shutil.copytree(folder, tmp_path / "copy")
    stored = (copy / "out" / "results.jsonl").read_bytes()
    out = copy / ("merged" if merged else "out")
    command = ("merge", "out") if merged else ("cohort", "all", *ONE)
    done = harness(*command, "--out", out.name, *chosen, cwd=copy)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(": scores.csv, missed.md, feedback/ (4 files)\n")
    assert (out / "scores.csv").read_text().splitlines()[1] == (
        "ada.py,yes,,75,1,2,0,1,0,1,0,15,0,75,100,0"
    )
    assert (out / "results.jsonl").read_bytes() == stored
    ada = (out / "feedback" / "ada.py.txt").read_text()
    assert "Points: 15 of 20" in ada
    assert "Not killed (1):" in ada
    assert "sub-sign" not in ada
    assert "fails on the correct engine" in (out / "feedback" / "bea.txt").read_text()


def test_feedback_takes_the_formats_of_a_single_suite(folder: Path, tmp_path: Path) -> None:
    options = ("--out", str(tmp_path), "--format", "gradescope")
    assert harness("merge", "out", *options, cwd=folder).returncode == 0
    table = json.loads((tmp_path / "feedback" / "ada.py.json").read_text())
    assert table["score"] == 50
    assert "sub-sign" not in json.dumps(table)


def test_other_settings_are_not_mixed(folder: Path) -> None:
    options = ("--out", "out", "--select", "sub-sign", "--limit", "5")
    done = harness("cohort", "all", *options, cwd=folder)
    assert done.returncode == 2
    assert "other conditions: the breaks, the correct engines, the limits" in done.stderr
    assert "remedy: grade everything again into a new --out folder" in done.stderr


def test_merging_gives_the_same_scores(folder: Path) -> None:
    done = harness("merge", "out", "--out", "merged", cwd=folder)
    assert done.returncode == 0
    name = "scores.csv"
    assert (folder / "merged" / name).read_bytes() == (folder / "out" / name).read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("cohort", "all", "--shard", "4/3"), "`4/3` is not a shard"),
        (("cohort", "all", "--feedback", "no"), "--feedback: there is no `no`"),
        (("cohort", "all", "--weights", "weights.toml"), "the weight 0"),
        (("merge", "all"), "there are no results of a cohort in all"),
        (("grade", "all", "--cohort"), "run `harness cohort FOLDER --out DIR`"),
        (("grade", "all", "--cohort", "--shard", "1/2"), "run `harness cohort FOLDER --out DIR`"),
        (("grade", "--merge", "out", "other"), "run `harness merge FOLDER... --out DIR`"),
    ],
)
def test_a_mistake_is_one_message(folder: Path, options: tuple[str, ...], message: str) -> None:
    done = harness(*options, "--out", "x", cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr
    assert "remedy: " in done.stderr
    assert not (folder / "x").exists()
