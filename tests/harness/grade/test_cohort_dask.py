"""A cohort on a Dask cluster, and the server that grades beside each of its workers."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

from harness.core.errors import EnvironmentProblem
from harness.core.message import message
from harness.grade.cohort.dask_pool import (
    GradingOrder,
    GradingServer,
    ServerLost,
    dask_pool,
    decode_reply,
)
from harness.grade.cohort.pool import GradingOutcome, GradingTask
from harness.grade.cohort.run import grade_cohort
from harness.grade.cohort.tally import tally
from harness.report.cohort import to_csv
from tests.harness.grade.cluster import Cluster
from tests.harness.grade.test_cohort import Course, wait_until

ROOT = Path(__file__).parents[3]


@pytest.fixture
def course(tmp_path: Path) -> Course:
    course = Course(tmp_path)
    course.log.touch()
    return course


@pytest.fixture
def server(course: Course) -> Iterator[GradingServer]:
    server = GradingServer(GradingOrder(course.opening(b"seed"), {"catalogue": "1"}, 100))
    yield server
    server.close()


def encoded(text: str) -> bytes:
    return msgspec.msgpack.encode(GradingTask("ada.py", "digest", {"ada.py": text.encode()}))


def test_a_server_grades_one_submission_after_another(server: GradingServer) -> None:
    assert server.refusal is None
    for text, killed in {"3": 3, "kill": 0, "2": 2}.items():
        outcome = msgspec.msgpack.decode(server.grade(encoded(text)), type=GradingOutcome)
        assert (outcome.report.killed, outcome.final) == (killed, text != "kill")
        assert outcome.report.suite == ["ada.py"]


def test_a_server_that_ends_is_noticed(server: GradingServer, course: Course) -> None:
    for pid in servers_of(os.getpid()):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(ServerLost):
        server.grade(encoded("1"))
    assert course.graded == []


def test_a_server_ends_with_the_process_that_it_serves(course: Course) -> None:
    code = (
        "import sys, msgspec\n"
        "from harness.grade.cohort.dask_pool import GradingOrder, GradingServer\n"
        "order, task = (bytes.fromhex(word) for word in sys.argv[1:])\n"
        "GradingServer(msgspec.msgpack.decode(order, type=GradingOrder)).grade(task)\n"
    )
    order = msgspec.msgpack.encode(GradingOrder(course.opening(b"seed"), {"catalogue": "1"}, 100))
    parent = subprocess.Popen(
        [sys.executable, "-c", code, order.hex(), encoded("hang").hex()],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    wait_until(lambda: course.graded == ["ada.py"])
    (server,) = servers_of(parent.pid)
    forks = servers_of(server)
    parent.kill()
    parent.wait()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in (server, *forks)))


def servers_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_worker_with_another_catalogue_does_not_grade(course: Course) -> None:
    server = GradingServer(GradingOrder(course.opening(b"seed"), {"catalogue": "2"}, 100))
    assert server.refusal
    assert server.refusal.problem == message(
        "a worker grades under other conditions: {conditions}", conditions="catalogue"
    )
    assert decode_reply(server.refusal.encode(), GradingOutcome) == server.refusal
    server.close()


def test_without_a_scheduler_there_is_one_message(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    course.add(ada="1")
    monkeypatch.setattr("harness.grade.cohort.dask_pool._PATIENCE", 1.0)
    pattern = "no Dask scheduler at tcp://127.0.0.1:9|needs distributed"
    with pytest.raises(EnvironmentProblem, match=pattern):
        on_dask(course, "tcp://127.0.0.1:9")


SILENT = """
import sys
from harness.grade.cohort import dask_pool
dask_pool._PATIENCE = 0.5
try:
    dask_pool._connect(sys.argv[1])
except dask_pool.EnvironmentProblem as error:
    print(error)
"""


@pytest.mark.skipif(not find_spec("distributed"), reason="needs distributed")
def test_a_server_that_is_not_a_scheduler_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-c", SILENT, address],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert done.stdout.startswith(f"there is no Dask scheduler at {address}: ")
    assert done.stderr == ""


def on_dask(course: Course, address: str) -> bytes:
    pool = dask_pool(address, 100)
    roster = grade_cohort(course.submissions, course.out, course.opening, pool, seed=b"seed")
    return to_csv(tally(course.out, roster))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.end()


CLIENT = """
import sys
from pathlib import Path
from harness.core.errors import EnvironmentProblem
from harness.core.message import message
from harness.sandbox.signals import requests_raised
from tests.harness.grade.test_cohort import Course
from tests.harness.grade.test_cohort_dask import on_dask
try:
    with requests_raised():
        on_dask(Course(Path(sys.argv[1])), sys.argv[2])
except EnvironmentProblem as error:
    print(error, file=sys.stderr)
    sys.exit(3)
"""


@pytest.mark.skipif(not find_spec("distributed"), reason="needs distributed")
def test_whatever_part_of_a_cluster_is_killed_the_scores_are_the_same(
    course: Course, cluster: Cluster
) -> None:
    go = course.folder / "go"
    go.touch()
    waiting = {f"b{i}": f"wait-for {go}" for i in range(2)}
    course.add(**{f"a{i}": str(i % 4) for i in range(4)}, **waiting)
    expected = course.grade(out=course.folder / "local")
    go.unlink()
    course.log.write_text("")

    def grading() -> int:
        return course.graded.count("b0.py") + course.graded.count("b1.py")

    def start_client() -> subprocess.Popen[bytes]:
        return cluster.start("-c", CLIENT, str(course.folder), cluster.address)

    scheduler = cluster.start_scheduler()
    workers = [cluster.start_worker() for _ in range(2)]
    client = start_client()
    wait_until(lambda: grading() == 2 and lines_in(course) == 4)
    for worker in workers:
        worker.kill()
        cluster.start_worker()
    wait_until(lambda: grading() == 4)
    client.kill()
    client.wait()
    scheduler.kill()
    scheduler.wait()
    scheduler = cluster.start_scheduler()
    cluster.start_worker()
    client = start_client()
    wait_until(lambda: grading() >= 5)
    scheduler.kill()
    assert client.wait(120) == 3
    go.touch()
    cluster.start_scheduler()
    cluster.start_worker()
    assert on_dask(course, cluster.address) == expected
    assert max(course.graded.count(f"a{i}.py") for i in range(4)) == 1, "none was graded again"


def lines_in(course: Course) -> int:
    return sum(file.read_bytes().count(b"\n") for file in course.out.glob("results*.jsonl"))
