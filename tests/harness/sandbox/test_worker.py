"""Workers: frames of bytes from a forked or spawned child, which can be ended at any time."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from harness.core.files import cache_folder, data_folder
from harness.sandbox.child import ChildWork, Line
from harness.sandbox.confinement import namespaces_available
from harness.sandbox.frames import Frame
from harness.sandbox.hosts import Opening
from harness.sandbox.limits import ALLOWED_VARIABLES, Limits
from harness.sandbox.worker import NoFrame, Worker, hosted_worker, spawn_worker

SECONDS = 60.0
Function = Callable[[bytes, Line], Iterator[Frame]]
Start = Callable[..., Worker]


@pytest.fixture(params=["forked", "spawned"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Starts a worker that runs a function of this module."""
    workers = []

    def start(function: Function, data: bytes = b"", limits: Limits | None = None) -> Worker:
        if request.param == "forked":
            opening = Opening(f"{__name__}:opened", (function.__name__,))
            worker = hosted_worker(opening, data, limits or Limits())
        else:
            name = f"{__name__}:{function.__name__}"
            worker = spawn_worker(name, data, tmp_path, limits or Limits())
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.end()


def opened(name: str) -> Callable[[bytes], ChildWork]:
    """In a host: what prepares tasks for this function of the module."""
    return lambda data: partial(globals()[name], data)


def three(data: bytes, line: Line) -> Iterator[Frame]:
    for number in b"123":
        line.send(Frame(b"+", data))
        yield Frame(b"=", bytes([number]))


def surroundings(_data: bytes, _line: Line) -> Iterator[Frame]:
    """What the child can see of its host, and whether it can write here."""
    Path("file").write_text("x", encoding="utf-8")
    shown = Path("/proc/self/environ").read_bytes().split(b"\0")
    for names in (os.environ, [entry.decode().partition("=")[0] for entry in shown if entry]):
        yield Frame(b"=", " ".join(names).encode())
    yield Frame(b"=", str(Path("/proc/self/ns/user").readlink()).encode())


def contents(data: bytes, _line: Line) -> Iterator[Frame]:
    """What the child reads in folders and files."""
    found = []
    for path in map(Path, data.decode().split("\n")):
        found += [entry.name for entry in path.iterdir()] if path.is_dir() else []
        found += [path.read_text(encoding="utf-8")] if path.exists() and not path.is_dir() else []
    yield Frame(b"=", " ".join(found).encode())


def wait(_data: bytes, _line: Line) -> Iterator[Frame]:
    time.sleep(SECONDS)
    yield Frame(b"=", b"")


def echo(_data: bytes, line: Line) -> Iterator[Frame]:
    while True:
        yield Frame(b"=", line.read_message())


def end_early(data: bytes, _line: Line) -> Iterator[Frame]:
    print("last words", flush=True)
    os._exit(int(data))
    yield Frame(b"=", b"")


def write_garbage(_data: bytes, _line: Line) -> Iterator[Frame]:
    for descriptor in range(3, 40):
        try:
            os.write(descriptor, b"\xff" * 64)
        except OSError:
            continue
    yield Frame(b"=", b"")


def test_frames_come_in_order_and_sent_ones_before_the_answer(start: Start) -> None:
    worker = start(three, b"data")
    for number in b"123":
        assert worker.request(SECONDS) == Frame(b"+", b"data")
        assert worker.receive(SECONDS) == Frame(b"=", bytes([number]))
    assert worker.request(SECONDS) is NoFrame.ENDED
    assert worker.end() == 0


def test_a_child_that_waits_for_a_request_exits_when_it_is_ended(start: Start) -> None:
    worker = start(three)
    worker.request(SECONDS)
    worker.receive(SECONDS)
    assert worker.end() == 0


def test_a_child_sees_a_few_variables_also_where_the_system_shows_them(start: Start) -> None:
    worker = start(surroundings)
    allowed = ALLOWED_VARIABLES | {"HOME", "TMPDIR", "XDG_CACHE_HOME", "LC_CTYPE"}
    for _ in range(2):
        variables = worker.request(SECONDS)
        assert isinstance(variables, Frame)
        assert "HOME" in variables.payload.decode().split()
        assert set(variables.payload.decode().split()) <= allowed


def test_a_child_has_namespaces_of_its_own_where_the_kernel_grants_them(start: Start) -> None:
    """Also a fresh interpreter, although NumPy has started threads there."""
    spaces = []
    for namespaces in (True, False):
        worker = start(surroundings, limits=Limits(namespaces=namespaces))
        frame = [worker.request(SECONDS) for _ in range(3)][-1]
        assert isinstance(frame, Frame)
        spaces.append(frame.payload.decode())
        worker.end()
    ours = str(Path("/proc/self/ns/user").readlink())
    command = ["unshare", "-U", "true"]
    if subprocess.run(command, check=False, capture_output=True).returncode == 0:
        assert spaces[0] != ours
    assert spaces[1] == ours


@pytest.mark.skipif(not namespaces_available(), reason="without namespaces, nothing is hidden")
def test_a_child_sees_neither_the_store_nor_the_progress(
    start: Start, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    start(contents, b"").request(SECONDS)  # a host that is older than the store
    for folder in (cache_folder(), data_folder()):
        (folder / "deeper").mkdir(parents=True)
        (folder / "runs.sqlite-wal").write_text("a secret", encoding="utf-8")
        (folder.parent / "beside").write_text("seen", encoding="utf-8")
        limits = Limits(visible=(str(folder.parent),))
        paths = f"{folder}\n{folder}/runs.sqlite-wal\n{folder.parent}/beside"
        assert start(contents, paths.encode(), limits).request(SECONDS) == Frame(b"=", b"seen")


@pytest.mark.skipif(not namespaces_available(), reason="without namespaces, nothing is hidden")
def test_only_our_files_are_hidden_in_a_folder_that_is_needed(
    start: Start, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A learner may keep the progress beside the engine."""
    folder = tmp_path_factory.mktemp("project")
    monkeypatch.setenv("BREAKLAB_DATA", str(folder))
    limits = Limits(visible=(str(folder),))
    for name in ("engine.py", "progress.sqlite", "progress.sqlite-wal"):
        (folder / name).write_text(name, encoding="utf-8")
        shown = start(contents, f"{folder}/{name}".encode(), limits).request(SECONDS)
        assert shown == Frame(b"=", b"engine.py" if name == "engine.py" else b"")


def test_a_late_frame_is_late_and_the_child_is_killed(start: Start) -> None:
    worker = start(wait)
    assert worker.request(0.1) is NoFrame.LATE
    assert worker.end() < 0


def test_a_message_of_any_length_comes_with_a_request(start: Start) -> None:
    worker = start(echo)
    for message in (b"", b"short", bytes(2**20)):
        assert worker.request(SECONDS, message) == Frame(b"=", message)


def test_a_message_that_is_not_read_does_not_stop_the_main_process(start: Start) -> None:
    worker = start(wait)
    assert worker.request(0.1, bytes(2**20)) is NoFrame.LATE
    assert worker.end() < 0


def test_an_early_end_has_a_status_and_last_words(start: Start) -> None:
    worker = start(end_early, b"3")
    assert worker.request(SECONDS) is NoFrame.ENDED
    assert worker.end() == 3
    assert worker.last_output == "last words"


def test_garbage_is_refused(start: Start) -> None:
    worker = start(write_garbage)
    assert worker.request(SECONDS) is NoFrame.REFUSED


def test_ending_twice_closes_no_file_that_has_the_number_now(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = start(end_early, b"3")
    closed: list[int] = []
    close = os.close

    def recorded(descriptor: int) -> None:
        closed.append(descriptor)
        close(descriptor)

    monkeypatch.setattr(os, "close", recorded)
    worker.request(SECONDS)
    assert [worker.end(), worker.end()] == [3, 3]
    assert len(closed) == 1
