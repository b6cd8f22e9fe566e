"""The store: what was run before is not run again, and whatever it depends on is in its key."""

import ast
import contextlib
import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import harness
from harness.core.run import Failure, Run, pack
from harness.runs import database, store
from harness.runs.child import Job
from harness.runs.store import Store, keys_of, run_kept
from tests.harness.tiny import PROBES, TINY, tiny_job


def changed(**fields: Any) -> Callable[[Job], Job]:
    return lambda job: msgspec.structs.replace(job, **fields)


def with_probe(job: Job, **fields: Any) -> Job:
    probes = tuple(replace(probe, **fields) for probe in job.probes)
    return msgspec.structs.replace(job, probes=probes)


CHANGES: dict[str, Callable[[Job], Job]] = {
    "the engine's source": changed(sources={"tiny.py": TINY + "\n# another\n"}),
    "the dialect": lambda job: msgspec.structs.replace(
        job, dialect=replace(job.dialect, value="t.data * 1")
    ),
    "what is measured": changed(measure=("gradcheck",)),
    "that it is the answer key": changed(answer_key=True),
    "that it is traced": changed(traced=True),
    "the loss": changed(items=((0, "weighted"),)),
    "the probe's text": lambda job: with_probe(job, source=PROBES + "\n"),
    "the probe's name": lambda job: with_probe(job, name="other"),
    "the step at which it resumes": lambda job: with_probe(job, resume_at=2),
}


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_a_run_depends_on_is_in_its_key(what: str) -> None:
    job = tiny_job()
    assert keys_of(job) == keys_of(tiny_job())
    assert keys_of(CHANGES[what](job))[0] != keys_of(job)[0]


@pytest.mark.parametrize("what", ["python", "numpy", "release", "own code", "seed"])
def test_whatever_runs_it_is_in_its_key(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys_of(tiny_job())[0]
    if what == "python":
        monkeypatch.setattr(store.sys, "version", "0")
    if what == "numpy":
        monkeypatch.setattr(np, "__version__", "0.0.0")
    if what == "release":
        monkeypatch.setattr(store, "_release", store._release.__wrapped__)
        monkeypatch.setattr(store, "version", lambda _: "0.0.0")
    if what == "own code":
        monkeypatch.setattr(store, "own_code", lambda: b"another")
    if what == "seed":
        monkeypatch.setattr(store, "SEED", 1)
    assert keys_of(tiny_job())[0] != before


def test_where_a_probe_stands_in_its_file_is_not_in_its_key() -> None:
    assert keys_of(with_probe(tiny_job(), line=9, path="q.py")) == keys_of(tiny_job())


def test_a_run_is_kept_for_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run_kept(tiny_job(), Store(tmp_path / "runs"))
    monkeypatch.setattr(store, "run_isolated", None)
    assert run_kept(tiny_job(), Store(tmp_path / "runs")) == first


def test_only_what_is_missing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, ran = tiny_job(), list[Any]()
    run_kept(msgspec.structs.replace(job, items=job.items[:2]), Store(tmp_path / "runs"))
    isolated = store.run_isolated

    def counted(job: Job, *rest: Any) -> list[Run]:
        ran.extend(job.items)
        return isolated(job, *rest)

    monkeypatch.setattr(store, "run_isolated", counted)
    runs = run_kept(job, Store(tmp_path / "runs"))
    assert ran == list(job.items[2:])
    assert [(run.probe, run.loss) for run in runs] == [
        (job.probes[index].name, loss) for index, loss in job.items
    ]


@pytest.mark.parametrize("kind", ["TimeLimit", "SIGKILL", "ProcessExit", "MemoryError"])
def test_what_depends_on_the_day_is_not_kept(kind: str, tmp_path: Path) -> None:
    lost = Run("p", None, failure=Failure("the run", kind, ""))
    kept = Run("p", None, failure=Failure("the run", "ValueError", ""))
    Store(tmp_path / "runs").keep({b"lost": lost, b"kept": kept})
    assert Store(tmp_path / "runs").recall([b"lost", b"kept"]) == {b"kept": kept}


def test_a_run_that_cannot_be_read_is_run_again(tmp_path: Path) -> None:
    first = run_kept(tiny_job(), Store(tmp_path / "runs"))
    with sqlite3.connect(tmp_path / "runs") as file:
        file.execute("UPDATE runs SET run = x'c1'")
    again = run_kept(tiny_job(), Store(tmp_path / "runs"))
    assert [run.gradients for run in again] == [run.gradients for run in first]


KEPT = {bytes([n] * 32): Run(f"p{n}", None, gradients={"a": pack(np.ones(99))}) for n in range(99)}


def garbage(path: Path) -> None:
    path.write_text("no SQLite at all" * 99)


def half_of_it(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def holes_in_it(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    path.write_bytes(data)


def another_table(path: Path) -> None:
    with sqlite3.connect(path) as file:
        file.execute("DROP TABLE runs")
        file.execute("CREATE TABLE runs (name TEXT)")
    file.close()


@pytest.mark.parametrize("damage", [garbage, half_of_it, holes_in_it, another_table])
def test_a_damaged_store_is_put_aside_with_one_warning_and_made_anew(
    damage: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs"
    Store(path).keep(KEPT)
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file.close()
    damage(path)
    store = Store(path)
    assert len(store.recall(KEPT)) < len(KEPT)
    store.keep(KEPT)
    said = capsys.readouterr().err
    assert said.count("harness:") == 1
    assert "is damaged" in said
    assert "runs.damaged" in said
    assert (tmp_path / "runs.damaged").exists()
    assert Store(path).recall(KEPT) == KEPT
    assert capsys.readouterr().err == ""


def a_file_in_the_way(folder: Path) -> Path:
    (folder / "file").write_text("no folder")
    return folder / "file" / "runs"


def a_folder_in_its_place(folder: Path) -> Path:
    (folder / "runs").mkdir()
    return folder / "runs"


def a_pipe_in_its_place(folder: Path) -> Path:
    os.mkfifo(folder / "runs")
    return folder / "runs"


def no_disk_at_all(_: Path) -> Path:
    return Path("/proc/breaklab/runs")


OBSTACLES = [a_file_in_the_way, a_folder_in_its_place, a_pipe_in_its_place, no_disk_at_all]


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_a_store_that_cannot_be_used_costs_only_time_and_says_so_once(
    obstacle: Callable[[Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(obstacle(tmp_path))
    for _ in range(2):
        store.keep(KEPT)
        assert store.recall(KEPT) == KEPT
    assert capsys.readouterr().err.count("runs cannot be kept") == 1


def test_a_full_disk_costs_only_time_and_is_spoken_of_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "runs")
    store.keep({b"first": Run("p", None)})
    assert store._file is not None
    store._file.connection.execute("PRAGMA max_page_count = 3")  # what a full disk says: FULL
    for _ in range(2):
        store.keep(KEPT)
    assert store.recall([b"first", *KEPT]) == {b"first": Run("p", None), **KEPT}
    assert "is full" in capsys.readouterr().err


def test_processes_that_share_a_damaged_store_speak_of_it_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs"
    first, second = Store(path), Store(path)
    first.keep(KEPT)
    assert second.recall(KEPT) == KEPT
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file.close()
    holes_in_it(path)
    for each in (first, second, first, second):
        each.recall(KEPT)
        each.keep(KEPT)
    assert Store(path).recall(KEPT) == KEPT
    assert capfd.readouterr().err.count("harness:") == 1


def test_a_store_that_has_grown_too_large_starts_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(tmp_path / "runs").keep({b"key": Run("p", None)})
    monkeypatch.setattr(database, "LARGEST", 0)
    assert Store(tmp_path / "runs").recall([b"key"]) == {}


def test_no_module_that_a_run_depends_on_is_left_out_of_the_key() -> None:
    """What the child imports, directly or not, inside functions too, is none of the faces."""
    folder = Path(harness.__file__).parent
    files = {_module(file, folder): file for file in folder.rglob("*.py")}
    seen: set[str] = set()
    wanted = {
        "harness.runs.child",
        "harness.runs.host",
        "harness.runs.oracles",
        "harness.runs.store",
    }
    while wanted:
        module = wanted.pop()
        seen.add(module)
        wanted |= {name for name in _imported(files[module]) if name in files} - seen
    faces = {
        module for module in seen if module.split(".")[1:2] in [[face] for face in store.FACES]
    }
    assert len(seen) > 50
    assert not faces


def test_every_face_is_a_module_of_the_harness() -> None:
    folder = Path(harness.__file__).parent
    assert set(store.FACES) <= {path.stem for path in folder.iterdir()}


def _module(file: Path, folder: Path) -> str:
    parts = ("harness", *file.relative_to(folder).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


def _imported(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.mark.parametrize(
    "row", [None, 7, "text", b"", b"\xc1", b"\x81" + b"\xa1z" + b"\x91" * 5000, b"\x80"]
)
def test_a_row_that_is_no_run_is_not_there(tmp_path: Path, row: object) -> None:
    path = tmp_path / "runs.sqlite"
    kept = Store(path)
    kept.keep({b"one": Run("p", None), b"other": Run("q", None)})
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE runs SET run = ? WHERE key = ?", (row, b"one"))
    assert kept.recall([b"one", b"other"]) == {b"other": Run("q", None)}
