"""Workers: frames of bytes from a forked or spawned child, which can be ended at any time."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from harness.sandbox.child import ALLOWED_VARIABLES, Send
from harness.sandbox.frames import Frame
from harness.sandbox.limits import Limits
from harness.sandbox.worker import NoFrame, Worker, fork_worker, spawn_worker

SECONDS = 60.0
Function = Callable[[bytes, Send], Iterator[Frame]]
Start = Callable[..., Worker]


@pytest.fixture(params=["forked", "spawned"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Starts a worker that runs a function of this module."""
    workers = []

    def start(function: Function, data: bytes = b"", limits: Limits | None = None) -> Worker:
        if request.param == "forked":
            work = partial(function, data)
            worker = fork_worker(work, tmp_path, limits or Limits(), confined=True)
        else:
            name = f"{__name__}:{function.__name__}"
            worker = spawn_worker(name, data, tmp_path, limits or Limits(), confined=True)
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.end()


def three(data: bytes, send: Send) -> Iterator[Frame]:
    for number in b"123":
        send(Frame(b"+", data))
        yield Frame(b"=", bytes([number]))


def surroundings(_data: bytes, _send: Send) -> Iterator[Frame]:
    """What the child can see of its host, and whether it can write here."""
    Path("file").write_text("x", encoding="utf-8")
    for text in (str(Path.cwd()), " ".join(os.environ)):
        yield Frame(b"=", text.encode())
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    yield Frame(b"=", str([len(row.split()) - 1 for row in status if row[:5] == "NSpid"]).encode())


def wait(_data: bytes, _send: Send) -> Iterator[Frame]:
    time.sleep(SECONDS)
    yield Frame(b"=", b"")


def end_early(data: bytes, _send: Send) -> Iterator[Frame]:
    print("last words", flush=True)
    os._exit(int(data))
    yield Frame(b"=", b"")


def write_garbage(_data: bytes, _send: Send) -> Iterator[Frame]:
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


def test_a_child_sees_its_scratch_folder_and_a_few_variables(start: Start, tmp_path: Path) -> None:
    worker = start(surroundings)
    folder, variables, _ = (worker.request(SECONDS) for _ in range(3))
    assert isinstance(folder, Frame)
    assert isinstance(variables, Frame)
    assert folder.payload.decode() == str(tmp_path)
    allowed = ALLOWED_VARIABLES | {"HOME", "TMPDIR", "XDG_CACHE_HOME"}
    assert set(variables.payload.decode().split()) <= allowed


def test_a_child_has_namespaces_of_its_own_where_the_kernel_grants_them(start: Start) -> None:
    """Also a fresh interpreter, although NumPy has started threads there."""
    depths = []
    for namespaces in (True, False):
        worker = start(surroundings, limits=Limits(namespaces=namespaces))
        frame = [worker.request(SECONDS) for _ in range(3)][-1]
        assert isinstance(frame, Frame)
        depths.append(int(frame.payload.strip(b"[]")))
        worker.end()
    command = ["unshare", "-U", "true"]
    if subprocess.run(command, check=False, capture_output=True).returncode == 0:
        assert depths[0] == depths[1] + 1


def test_a_late_frame_is_late_and_the_child_is_killed(start: Start) -> None:
    worker = start(wait)
    assert worker.request(0.1) is NoFrame.LATE
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
