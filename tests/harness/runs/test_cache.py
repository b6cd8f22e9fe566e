"""The cache: nothing is computed twice, and everything that a result depends on is in its key."""

import ast
import contextlib
import os
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import pytest

import harness
from harness.core.measurement import Measurement
from harness.core.run import Failure, Measured, Run, pack
from harness.core.vocabulary import Phase
from harness.runs import cache as cache_module
from harness.runs import cached_runs
from harness.runs.cache import RUN_ROOMS, Cache, ResultKind, code_digest, key_of
from harness.runs.cached_runs import RUNS, keys_of, run_cached
from harness.runs.isolated import run_isolated
from harness.runs.protocol import Job, JobStep, Recorded
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
    "what is measured": changed(measure=(Measurement("gradcheck", "m:f"),)),
    "how it is measured": changed(measure=(Measurement("gradcheck", "m:g"),)),
    "what is recorded": changed(records=Recorded.INSIDE),
    "the loss": changed(steps=(JobStep(0, "weighted"),)),
    "the probe's text": lambda job: with_probe(job, source=PROBES + "\n"),
    "the probe's name": lambda job: with_probe(job, name="other"),
    "the step at which it resumes": lambda job: with_probe(job, resume_at=2),
}


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_a_run_depends_on_is_in_its_key(what: str) -> None:
    job = tiny_job()
    assert keys_of(job) == keys_of(tiny_job())
    assert keys_of(CHANGES[what](job))[0] != keys_of(job)[0]


def test_a_stand_in_for_a_library_has_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    cache_module._environment.cache_clear()
    cache_module._version.cache_clear()
    assert keys_of(tiny_job())
    cache_module._environment.cache_clear()
    cache_module._version.cache_clear()


@pytest.mark.parametrize("what", ["python", "a library", "own code", "seed"])
def test_whatever_runs_it_is_in_its_key(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys_of(tiny_job())[0]
    cache_module._environment.cache_clear()
    if what == "python":
        monkeypatch.setattr(cache_module.sys, "version", "0")
    if what == "a library":
        monkeypatch.setattr(cache_module, "_version", lambda _: (True, "0.0.0"))
    if what == "own code":
        monkeypatch.setattr(cache_module, "code_digest", lambda _rooms: "another")
    if what == "seed":
        monkeypatch.setattr(cached_runs, "SEED", 1)
    assert keys_of(tiny_job())[0] != before
    cache_module._environment.cache_clear()


def test_what_an_engine_may_import_is_in_the_key_of_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    os.utime(folder, ns=(0, 0))
    monkeypatch.syspath_prepend(folder)
    before, ours = keys_of(tiny_job()), keys_of(changed(base={"tiny.py": TINY})(tiny_job()))
    (folder / "a_library.py").touch()
    assert keys_of(tiny_job())[0] != before[0]
    assert keys_of(changed(base={"tiny.py": TINY})(tiny_job())) == ours


@pytest.mark.parametrize(
    "read",
    ["at the import", "in the backward pass", "by another module", "by a program", "by a shell"],
)
def test_a_run_that_depends_on_another_file_is_not_cached(tmp_path: Path, read: str) -> None:
    statement = f"scale = float(open({str(tmp_path / 'scale')!r}).read())"
    if read == "by another module":
        (tmp_path / "constants.py").write_text("scale = 1.0\n")
        statement = f"import sys; sys.path.append({str(tmp_path)!r}); from constants import scale"
    if read == "by a program":
        command = ["cat", str(tmp_path / "scale")]
        statement = f"import subprocess; scale = float(subprocess.check_output({command}))"
    if read == "by a shell":
        command = f"cat < {tmp_path / 'scale'}"
        statement = f"import os; scale = float(os.popen({command!r}).read())"
    text = TINY.replace("* cotangent", "* cotangent * scale")
    text = (
        text.replace("self.parent.grad", f"{statement}; self.parent.grad")
        if read == "in the backward pass"
        else f"{statement}\n{text}"
    )
    job = msgspec.structs.replace(tiny_job(text).only([0]), root=str(tmp_path))
    cache = Cache(tmp_path / "runs")
    for scale in ("1.0", "3.0"):
        (tmp_path / "scale").write_text(scale)
        (tmp_path / "constants.py").write_text(f"scale = {scale}\n")
        gradient = run_cached(job, cache)[0].gradients["a"]
        assert gradient is not None
        assert gradient.numpy()[0] == 2.0 * float(scale)


@pytest.mark.parametrize(
    "statement",
    [
        "import json, xml.dom.minidom, numpy.testing, numpy.polynomial",
        "open(__file__)",
        "open('/dev/null'); open('/proc/self/status')",
        "open('notes', 'w'); import tempfile; tempfile.TemporaryFile()",
        "import os; os.fdopen(os.dup(1))",
        "import ctypes; ctypes.CDLL('libc.so.6')",
        "open('/etc/passwd')",
        "import subprocess; subprocess.run(['/bin/sh', '-c', 'true'], check=True)",
    ],
)
def test_a_run_that_reads_only_installed_files_and_its_own_is_cached(
    statement: str, tmp_path: Path
) -> None:
    (tmp_path / "tiny.py").touch()
    job = changed(root=str(tmp_path))(tiny_job(f"{statement}\n{TINY}").only([0]))
    assert [(run.failure, run.repeatable) for run in run_isolated(job)] == [(None, True)]


def test_installed_files_are_known_under_either_name_of_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "venv" / "site-packages").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "venv")
    monkeypatch.syspath_prepend(tmp_path / "link" / "site-packages")
    for name in ("link", "venv"):
        file = tmp_path / name / "site-packages" / "data"
        file.touch()
        job = tiny_job(f"open({str(file)!r})\n{TINY}").only([0])
        assert [(run.failure, run.repeatable) for run in run_isolated(job)] == [(None, True)]


def test_where_a_probe_stands_in_its_file_is_not_in_its_key() -> None:
    assert keys_of(with_probe(tiny_job(), line=9, path="q.py")) == keys_of(tiny_job())


def test_a_run_is_cached_for_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run_cached(tiny_job(), Cache(tmp_path / "runs"))
    monkeypatch.setattr(cached_runs, "run_isolated", None)
    assert run_cached(tiny_job(), Cache(tmp_path / "runs")) == first


def test_only_what_is_missing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, ran = tiny_job(), list[Any]()
    run_cached(job.only([0, 1]), Cache(tmp_path / "runs"))
    isolated = cached_runs.run_isolated

    def counted(job: Job, *rest: Any) -> list[Run]:
        ran.extend(job.steps)
        return isolated(job, *rest)

    monkeypatch.setattr(cached_runs, "run_isolated", counted)
    runs = run_cached(job, Cache(tmp_path / "runs"))
    assert ran == list(job.steps[2:])
    assert [(run.probe, run.loss) for run in runs] == job.pairs


@pytest.mark.parametrize("where", ["the run", "a measurement"])
def test_what_is_not_repeatable_is_not_cached(where: str, tmp_path: Path) -> None:
    def run(repeatable: bool) -> Run:
        if where == "the run":
            return Run("p", None, failure=Failure(Phase.RUN, "A", "", repeatable=repeatable))
        return Run("p", None, measured={"gradcheck": Measured(failure="A", repeatable=repeatable)})

    results = {b"lost": run(False), b"kept": run(True)}
    Cache(tmp_path / "runs").put(RUNS, results)
    assert Cache(tmp_path / "runs").get(RUNS, results) == {b"kept": run(True)}


def measure_without_memory(trial: object, run: Run) -> Measured:  # noqa: ARG001  a measurement's
    raise MemoryError


def test_a_measurement_without_memory_is_not_cached(tmp_path: Path) -> None:
    measurement = Measurement("m", f"{__name__}:measure_without_memory")
    job = msgspec.structs.replace(tiny_job(), measure=(measurement,))
    runs = run_cached(job, Cache(tmp_path / "runs"))
    assert [run.repeatable for run in runs] == [False, False, False, False, True]
    cached = Cache(tmp_path / "runs").get(RUNS, keys_of(job))
    assert list(cached.values()) == [runs[-1]], "probes of steps are not measured"


def test_a_run_that_cannot_be_read_is_run_again(tmp_path: Path) -> None:
    first = run_cached(tiny_job(), Cache(tmp_path / "runs"))
    with contextlib.closing(sqlite3.connect(tmp_path / "runs")) as file, file:
        file.execute("UPDATE results SET row = x'c1'")
    again = run_cached(tiny_job(), Cache(tmp_path / "runs"))
    assert [run.gradients for run in again] == [run.gradients for run in first]


KEPT = {bytes([n] * 32): Run(f"p{n}", None, gradients={"a": pack(np.ones(99))}) for n in range(99)}


def garbage(path: Path) -> None:
    path.write_text("not SQLite" * 99)


def half_of_it(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def holes_in_it(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    path.write_bytes(data)


def another_table(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute("DROP TABLE results")
        file.execute("CREATE TABLE results (name TEXT)")
    file.close()


@pytest.mark.parametrize("damage", [garbage, half_of_it, holes_in_it, another_table])
def test_a_damaged_store_is_put_aside_with_one_warning_and_made_anew(
    damage: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs"
    Cache(path).put(RUNS, KEPT)
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file.close()
    damage(path)
    store = Cache(path)
    assert len(store.get(RUNS, KEPT)) < len(KEPT)
    store.put(RUNS, KEPT)
    text = capsys.readouterr().err
    assert text.count("harness:") == 1
    assert "is damaged" in text
    assert "runs.damaged" in text
    assert (tmp_path / "runs.damaged").exists()
    assert Cache(path).get(RUNS, KEPT) == KEPT
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
    store = Cache(obstacle(tmp_path))
    for _ in range(2):
        store.put(RUNS, KEPT)
        assert store.get(RUNS, KEPT) == KEPT
    assert capsys.readouterr().err.count("results cannot be cached") == 1


def test_a_full_disk_costs_only_time_and_is_spoken_of_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Cache(tmp_path / "runs")
    store.put(RUNS, {b"first": Run("p", None)})
    assert store._database._file is not None
    store._database._file.connection.execute(
        "PRAGMA max_page_count = 3"
    )  # what a full disk says: FULL
    for _ in range(2):
        store.put(RUNS, KEPT)
    assert store.get(RUNS, [b"first", *KEPT]) == {b"first": Run("p", None), **KEPT}
    assert "is full" in capsys.readouterr().err


def test_a_locked_store_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs"
    Cache(path).put(RUNS, {})
    monkeypatch.setattr(cache_module, "PATIENCE", 0.01)
    cache = Cache(path)
    with contextlib.closing(sqlite3.connect(path)) as other, other:
        other.execute("BEGIN EXCLUSIVE")
        cache.put(RUNS, KEPT)
        assert cache.get(RUNS, KEPT) == KEPT
    other.close()
    assert capsys.readouterr().err.count("is locked") == 1
    file = cache._database._file
    assert file
    assert file.connection.execute("PRAGMA busy_timeout").fetchone() == (0,)


def test_processes_that_share_a_damaged_store_speak_of_it_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs"
    first, second = Cache(path), Cache(path)
    first.put(RUNS, KEPT)
    assert second.get(RUNS, KEPT) == KEPT
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file.close()
    holes_in_it(path)
    for item in (first, second, first, second):
        item.get(RUNS, KEPT)
        item.put(RUNS, KEPT)
    assert Cache(path).get(RUNS, KEPT) == KEPT
    assert capfd.readouterr().err.count("harness:") == 1


def test_a_store_that_has_grown_too_large_starts_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cache(tmp_path / "runs").put(RUNS, {b"key": Run("p", None)})
    monkeypatch.setattr(cache_module, "LARGEST", 0)
    assert Cache(tmp_path / "runs").get(RUNS, [b"key"]) == {}


def test_no_module_that_a_run_depends_on_is_left_out_of_the_key() -> None:
    """The child imports modules of the rooms in the key only, also inside functions."""
    folder = Path(harness.__file__).parent
    files = {_module(file, folder): file for file in folder.rglob("*.py")}
    imported: set[str] = set()
    pending = {"harness.runs.child", *(name for name in files if ".diagnostics." in name)}
    while pending:
        module = pending.pop()
        imported.add(module)
        pending |= {name for name in _imported(files[module]) if name in files} - imported
        pending.discard("harness")  # its public API is imported where it is used
    rooms = {module.split(".")[1] for module in imported if "." in module}
    assert len(imported) > 50
    assert rooms <= {*RUN_ROOMS}


def test_all_code_of_the_harness_is_in_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deeper").mkdir()
    for name in ("__init__.py", "deeper/one.py", "deeper/es.toml"):
        (tmp_path / name).write_text("")
    monkeypatch.setattr(harness, "__file__", str(tmp_path / "__init__.py"))
    digests = {code_digest.__wrapped__(("",))}
    for name in ("deeper/one.py", "deeper/es.toml"):
        (tmp_path / name).write_text("x = 1\n")
        digests.add(code_digest.__wrapped__(("",)))
    assert len(digests) == 3


def test_kinds_with_the_same_facts_have_different_keys() -> None:
    one, other = ResultKind[Run]("one", Run, RUN_ROOMS), ResultKind[Run]("other", Run, RUN_ROOMS)
    assert key_of(one, "facts") != key_of(other, "facts")


def test_a_flipped_bit_is_a_missing_row(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    cache = Cache(path)
    cache.put(RUNS, KEPT)
    rows = [*cache_module.Database(path)._select(list(KEPT))]
    assert len(rows) == len(KEPT)
    for position, (key, row) in enumerate(rows):
        assert isinstance(row, bytes)
        flipped = bytearray(row)
        flipped[position % len(row)] ^= 1 << position % 8
        cache._database._insert([(key, bytes(flipped))])
    assert Cache(path).get(RUNS, KEPT) == {}


def test_a_row_under_another_key_is_a_missing_row(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "runs")
    cache.put(RUNS, {b"one": Run("p", None)})
    ((_, row),) = cache._database._select([b"one"])
    assert isinstance(row, bytes)
    cache._database._insert([(b"other", row)])
    assert cache.get(RUNS, [b"one", b"other"]) == {b"one": Run("p", None)}


def test_tables_of_an_older_version_are_dropped(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "runs")) as file, file:
        file.execute("CREATE TABLE runs (key BLOB PRIMARY KEY, run BLOB)")
    Cache(tmp_path / "runs").put(RUNS, KEPT)
    with contextlib.closing(sqlite3.connect(tmp_path / "runs")) as file:
        tables = file.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert tables == [("results",)]


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
def test_a_row_that_is_not_a_run_is_a_miss(tmp_path: Path, row: object) -> None:
    path = tmp_path / "runs.sqlite"
    kept = Cache(path)
    kept.put(RUNS, {b"one": Run("p", None), b"other": Run("q", None)})
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE results SET row = ? WHERE key = ?", (row, b"one"))
    assert kept.get(RUNS, [b"one", b"other"]) == {b"other": Run("q", None)}
