"""The progress file: shared by terminals, safe in a crash, and left alone if it is not ours."""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import harness.learn.events as progress_file
from harness.learn.events import (
    DamagedFile,
    Journal,
    NotUsable,
    PageFinished,
    ProgressDatabase,
)
from harness.learn.progress import LearnerProgress
from tests.harness.learn.events import one_of_each_kind

ROOT = Path(__file__).parents[3]


@pytest.fixture
def database(tmp_path: Path) -> ProgressDatabase:
    return ProgressDatabase(tmp_path / "new" / "progress.sqlite")


def run(code: str, path: Path, *arguments: str, **options: object) -> subprocess.Popen[str]:
    """Start a process that runs this code on the database at `path`."""
    start = (
        "import sys; from pathlib import Path\n"
        "from harness.learn.events import ProgressDatabase\n"
        "from harness.learn.events import PageFinished\n"
        "database = ProgressDatabase(Path(sys.argv[1]))\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", start + code, str(path), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )


def test_events_come_back_by_time(database: ProgressDatabase) -> None:
    events = one_of_each_kind()
    assert database.add(events[::-1]) == len(events)
    assert database.read() == events


def test_an_event_that_is_known_is_not_added_again(database: ProgressDatabase) -> None:
    events = one_of_each_kind()
    database.add(events[:2])
    assert database.add(events) == len(events) - 2
    assert database.read() == events


def test_reading_creates_nothing(database: ProgressDatabase) -> None:
    assert database.read() == []
    assert not database.path.parent.exists()


def test_a_crash_loses_only_the_event_that_was_being_written(database: ProgressDatabase) -> None:
    database.add([PageFinished(page="sub-sign")])
    crash = (
        "import os, signal; connection = database._connect('rw')\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        "connection.execute('PRAGMA cache_spill = 1')\n"
        "connection.execute('PRAGMA cache_size = 1')\n"
        "rows = [(bytes([i, j]), b'x' * 5000) for i in range(50) for j in range(5)]\n"
        "connection.executemany('INSERT INTO events VALUES (?, ?)', rows)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    process = run(crash, database.path)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert database.path.with_name("progress.sqlite-journal").exists()
    assert [event.page for event in database.read() if isinstance(event, PageFinished)] == [
        "sub-sign"
    ]
    assert database.add([PageFinished(page="abs-grad-no-sign")]) == 1
    assert len(database.read()) == 2


def test_two_terminals_add_to_the_same_file(database: ProgressDatabase) -> None:
    add = "[database.add([PageFinished(page=f'{sys.argv[2]}-{n}')]) for n in range(30)]"
    processes = [run(add, database.path, name) for name in ("one", "two")]
    assert [process.communicate()[1] for process in processes] == ["", ""]
    assert len(database.read()) == 60


def test_two_terminals_cannot_both_create_the_file(
    database: ProgressDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one tries while the first is about to create the table."""
    create = progress_file._create

    def create_late(connection: sqlite3.Connection) -> None:
        monkeypatch.setattr(progress_file, "_create", create)
        with pytest.raises(NotUsable, match="locked"):
            database.add([PageFinished(page="sub-sign")])
        create(connection)

    monkeypatch.setattr(progress_file, "PATIENCE", 0.0)
    monkeypatch.setattr(progress_file, "_create", create_late)
    assert database.add(one_of_each_kind()) == 10


def with_version(database: ProgressDatabase, version: int) -> bytes:
    """The content of the file, as if this version had written it."""
    database.add([PageFinished(page="sub-sign")])
    with closing(sqlite3.connect(database.path)) as connection, connection:
        connection.execute(f"PRAGMA user_version = {version}")
    return database.path.read_bytes()


def test_a_file_of_a_newer_version_is_left_as_it_is(
    database: ProgressDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    before = with_version(database, 2)
    for use in (database.read, lambda: database.add(one_of_each_kind()), database.clear):
        with pytest.raises(NotUsable, match="newer version"):
            use()
    journal = Journal(database)
    journal.record(PageFinished(page="abs-grad-no-sign"))
    journal.record(PageFinished(page="abs-slope-by-quotient"))
    assert LearnerProgress(journal.events).done == {"abs-grad-no-sign", "abs-slope-by-quotient"}
    assert capsys.readouterr().err.count("progress is not saved") == 1
    assert [path.name for path in database.path.parent.iterdir()] == ["progress.sqlite"]
    assert database.path.read_bytes() == before


def test_a_row_that_is_no_event_is_passed_over(database: ProgressDatabase) -> None:
    database.add([PageFinished(page="sub-sign")])
    with closing(sqlite3.connect(database.path)) as connection, connection:
        rows = [(b"1", b'{"kind":"flight"}'), (b"2", b"\xff"), (b"3", 3)]
        connection.executemany("INSERT INTO events VALUES (?, ?)", rows)
    assert len(database.read()) == 1


def test_a_damaged_file_is_reported_and_a_reset_removes_it(database: ProgressDatabase) -> None:
    database.add([PageFinished(page="sub-sign")])
    database.path.write_bytes(b"not a database, " * 500)
    with pytest.raises(DamagedFile, match="cannot be read"):
        database.read()
    database.clear()
    assert database.read() == []
    assert database.add([PageFinished(page="sub-sign")]) == 1


def test_the_database_of_another_program_is_not_ours(database: ProgressDatabase) -> None:
    database.path.parent.mkdir()
    with closing(sqlite3.connect(database.path)) as connection, connection:
        connection.execute("CREATE TABLE events (key, event)")
    for use in (database.read, lambda: database.add(one_of_each_kind())):
        with pytest.raises(DamagedFile, match="another program"):
            use()


def test_a_reset_leaves_a_file_that_works(database: ProgressDatabase) -> None:
    database.clear()
    assert not database.path.exists()
    database.add(one_of_each_kind())
    database.clear()
    assert database.read() == []
    assert database.add(one_of_each_kind()) == 10


def test_a_folder_that_cannot_be_made_costs_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    database = ProgressDatabase(tmp_path / "file" / "progress.sqlite")
    with pytest.raises(NotUsable, match="cannot be used"):
        database.add([PageFinished(page="sub-sign")])
    journal = Journal(database)
    for page in ("sub-sign", "abs-grad-no-sign"):
        journal.record(PageFinished(page=page))
    assert LearnerProgress(journal.events).done == {"sub-sign", "abs-grad-no-sign"}
    assert capsys.readouterr().err.count("\n") == 1


def test_a_full_disk_keeps_what_is_there(database: ProgressDatabase) -> None:
    database.add([PageFinished(page="sub-sign")])
    size = database.path.stat().st_size
    add = "database.add([PageFinished(page=f'page-{n}') for n in range(1000)])"
    limit = (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    full = run(
        add, database.path, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    )
    assert "NotUsable" in full.communicate()[1]
    assert len(database.read()) == 1
