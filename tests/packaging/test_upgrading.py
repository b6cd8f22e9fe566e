"""What version 0.1.0 and its development versions wrote is read by this one, or refused."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from harness.engines.location import locate
from harness.learn.events import ProgressDatabase, read_export
from harness.runs.cache import Cache, ResultKind, key_of
from tests.harness.command import Completed, harness

SAMPLES = Path(__file__).parent / "samples"
VERSIONS = "first", "last"
TAPE = Path(__file__).parents[1] / "engines" / "tape.py"
EVENTS = {"first": 10, "last": 14}


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A copy of the samples, since reading a database may write to it."""
    return shutil.copytree(SAMPLES, tmp_path / "samples")


def progress(folder: Path, *options: str) -> Completed:
    return harness("progress", *options, BREAKLAB_DATA=str(folder))


# ----- Progress -----


@pytest.mark.parametrize("version", VERSIONS)
def test_all_events_of_a_progress_database_are_read(version: str, sample: Path) -> None:
    with closing(sqlite3.connect(sample / version / "progress.sqlite")) as connection:
        (rows,) = connection.execute("SELECT count(*) FROM events").fetchone()
    events = ProgressDatabase(sample / version / "progress.sqlite").read()
    assert len(events) == rows == EVENTS[version]
    done = progress(sample / version, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    shown = json.loads(done.stdout)
    assert shown["track"]["done"] == 1
    assert shown["predictions"] == {"count": 3, "right": 1}
    assert shown["calibration"][0]["instead"] == {"silent-corruption": 1}
    assert shown["self_test"]["before"]["answered"] == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_exported_progress_is_imported_once(version: str, sample: Path, tmp_path: Path) -> None:
    file = sample / version / "progress.json"
    events = ProgressDatabase(sample / version / "progress.sqlite").read()
    assert list(read_export(file)) == events
    done = progress(tmp_path / "new", "--import", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{EVENTS[version]} events added; 0 were")
    # The events of the database that it was exported from are the same ones.
    done = progress(sample / version, "--import", str(file))
    assert done.stdout.startswith(f"0 events added; {EVENTS[version]} were")


def test_pages_that_no_longer_exist_hinder_no_command(tmp_path: Path) -> None:
    gone = "max-pool-overwrites"  # a page of version 0.1.0
    time = {"time": "2026-11-22T09:00:00Z"}
    prediction = {"probe": "pool", "loss": None, "predicted": "crash", "actual": "crash"}
    events = [
        {"kind": "finished", "page": gone, **time},
        {"kind": "prediction", "page": gone, "right": True, **prediction, **time},
        {"kind": "draw", "before": [gone, "sub-sign"], "after": [gone, "sub-sign"], **time},
        {"kind": "hunt", "hunt": {"seed": 3, "level": 1, "pool": "0" * 12}, **time},
    ]
    file = tmp_path / "progress.json"
    file.write_text(json.dumps({"schema": 1, "events": events}), encoding="utf-8")
    data = {"BREAKLAB_DATA": str(tmp_path / "data")}
    assert harness("progress", "--import", str(file), **data).returncode == 0
    for command in (("progress",), ("list", "--todo"), ("hunt",), ("start",)):
        done = harness(*command, **data)
        assert (done.returncode, done.stderr) == (0, ""), command


# ----- A cohort's folder -----


@pytest.mark.parametrize("version", VERSIONS)
def test_the_results_of_a_cohort_are_counted(version: str, sample: Path, tmp_path: Path) -> None:
    done = harness("merge", str(sample / version / "cohort"), "--out", str(tmp_path / "merged"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("2 submissions graded: 1 gradable\n")
    assert "damaged" not in done.stdout
    rows = (tmp_path / "merged" / "scores.csv").read_text(encoding="utf-8").splitlines()
    assert [row.split(",")[:2] for row in rows[1:]] == [["ada.py", "yes"], ["bea", "no"]]


@pytest.mark.parametrize("version", VERSIONS)
def test_no_result_is_added_to_those_of_another_version(
    version: str, sample: Path, tmp_path: Path
) -> None:
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "ada.py").write_text("def test(): pass\n", encoding="utf-8")
    results = sample / version / "cohort" / "results.jsonl"
    before = results.read_bytes()
    few = ("--select", "sub-sign", "--correct", "tanh-by-expm1")
    done = harness("cohort", str(tmp_path / "course"), "--out", str(results.parent), *few)
    assert (done.returncode, done.stdout) == (2, "")
    problem, remedy = done.stderr.splitlines()
    assert "were made under other conditions: " in problem
    assert "breaklab" in problem
    assert remedy == (
        "  remedy: grade everything again into a new --out folder, or restore what has changed"
    )
    assert results.read_bytes() == before


# ----- The cache, and the settings of an engine -----


def test_the_cache_is_used_on_without_a_word(
    sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = sample / "release" / "runs.sqlite"
    kind = ResultKind[int]("a number", int, is_repeatable=lambda _: True)
    key = key_of(kind, "of a test")
    assert Cache(file).fetch(kind, [key], lambda _: [7]) == [7]
    assert Cache(file).get(kind, [key]) == {key: 7}
    assert capsys.readouterr() == ("", "")
    assert [path.name for path in file.parent.glob("*damaged*")] == []


def test_the_settings_of_an_engine_are_read(sample: Path) -> None:
    shutil.copy(TAPE, sample / "release" / "tape.py")
    target = locate(str(sample / "release"))
    assert (target.module, target.name) == ("tape", "Tensor")
    assert target.settings.accumulation == "out of place"
    assert target.settings.names == {"unbroadcast": "sum_grad_to_shape"}
    done = harness("diff", "skip-unbroadcast", "--engine", str(sample / "release"))
    assert done.returncode == 0
    assert "+    return grad, grad" in done.stdout
