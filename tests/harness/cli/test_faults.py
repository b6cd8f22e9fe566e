"""Commands that write, and faults of disk, memory, limits and signals: no file is half written."""

import errno
import io
import os
import re
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from harness import cli
from harness.grade.cohort.results import ResultHeader, ResultReader
from harness.report import to_json
from tests.harness.grade.results import MIXED
from tests.harness.grade.test_cohort import Course
from tests.harness.sound_exercise import SOUND_EXERCISE
from tests.harness.sound_page import write_page

SHOW = "grade --from record.json --format"
COMMANDS: Mapping[str, int] = {
    f"{SHOW} gradescope=a.json --format html=a.html --format record=b": 70,
    f"{SHOW} junit=a.xml --format sarif=a.sarif --format text=a.txt": 60,
    "merge out --out merged --html class.html --feedback stage": 94,
    "progress --export progress.json": 20,
    "exercise equal-factors --breaks pages --start start.py": 20,
    "fix skip-unbroadcast --dir copy": 20,
    "html log-slope-one --breaks pages --out page.html --no-open": 10,
    "new log-slope-one --breaks pages --again": 6,
}
"""How often each command fails; those that run engines take longer."""

CALLS = "open", "link", "replace", "fsync", "mkdir", "write", "chmod"
"""The functions of `os` that may fail."""


def test_the_number_of_faults() -> None:
    assert sum(COMMANDS.values()) == 300


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which each of the commands replaces older files."""
    folder = tmp_path_factory.mktemp("faults") / "before"
    folder.mkdir()
    (folder / "record.json").write_text(to_json(MIXED))
    for name in ("a.json", "a.html", "b", "a.txt", "a.xml", "a.sarif", "class.html", "page.html"):
        (folder / name).write_text(f"an older {name}, {'which is long, ' * 3000}")
    (folder / "matrix.html").write_text("an older matrix")
    write_page(folder / "pages")
    write_page(folder / "pages", SOUND_EXERCISE, "equal-factors.md")
    course = Course(folder)
    course.add(ada="3", bea="2")
    course.grade(workers=1, out=folder / "merged")
    shutil.copytree(folder / "merged", folder / "out")
    course.add(bea="1", cleo="4")
    course.grade(workers=1)
    course.grade(workers=1, again=("ada.py",))
    (folder / "merged" / "scores.csv").write_text("older scores")
    return folder


@dataclass(frozen=True)
class Fault:
    """What fails, and where."""

    kind: str
    arm: Callable[[], None] = lambda: None
    """Called in the process of the command before it begins."""
    number: int = 0
    """The signal to send, and after how many seconds."""
    after: float = 0.0


def draw(rng: Random, seconds: float, calls: Counter[str]) -> Fault:
    """A fault of a command that takes so long, and calls these functions of `os` so often."""
    kind = rng.choice(["disk", "call", "call", "descriptors", "memory", "signal", "signal"])
    if kind == "signal":
        number = rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
        return Fault(f"{number.name}", number=number, after=rng.uniform(0, seconds))
    if kind == "call":
        name = rng.choice([name for name in CALLS if calls[name]])
        at, code = rng.randrange(calls[name]), rng.choice([errno.ENOSPC, errno.EIO, errno.EACCES])
        return Fault(f"os.{name}, call {at}: {errno.errorcode[code]}", lambda: fail(name, at, code))
    if kind == "disk":
        size = rng.choice([0, 1, rng.randrange(1000), rng.randrange(60_000)])
        return Fault(f"files of {size} bytes", lambda: limit(resource.RLIMIT_FSIZE, size))
    if kind == "memory":
        more = rng.randrange(30_000_000)
        return Fault(f"{more} bytes of memory", lambda: limit(resource.RLIMIT_AS, used() + more))
    more = rng.randrange(10)
    return Fault(
        f"{more} more descriptors",
        lambda: limit(resource.RLIMIT_NOFILE, len(list(Path("/dev/fd").iterdir())) + more),
    )


def limit(kind: int, most: int) -> None:
    resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))


def used() -> int:
    """The bytes of address space of this process."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def fail(name: str, at: int, code: int) -> None:
    """Let one call of a function of `os` fail."""
    wrap([name], lambda _, number: number == at, code)


def wrap(names: list[str], fails: Callable[[str, int], bool], code: int = 0) -> Counter[str]:
    """Count the calls of functions of `os`, and let some fail."""
    calls: Counter[str] = Counter()

    def wrapped(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            calls[name] += 1
            if fails(name, calls[name] - 1):
                raise OSError(code, os.strerror(code))
            return original(*arguments, **options)

        return call

    for name in names:
        setattr(os, name, wrapped(name, getattr(os, name)))
    return calls


def run(command: str, folder: Path, fault: Fault, log: Path) -> tuple[int, float]:
    """Run a command in a fork, with a fault; return its exit status and how long it took."""
    start = time.monotonic()
    pid = os.fork()
    if not pid:
        _run_here(command, folder, fault, log)
    if fault.number:
        time.sleep(fault.after)
        os.kill(pid, fault.number)
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() - start > 60:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    return os.waitstatus_to_exitcode(ended[1]), time.monotonic() - start


def _run_here(command: str, folder: Path, fault: Fault, log: Path) -> None:
    status = 99
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(out, number)
        sys.stdin, sys.stdout = io.StringIO(), io.StringIO()
        sys.stderr = os.fdopen(2, "w", closefd=False)
        sys.argv = ["harness", *command.split()]
        fault.arm()
        cli.main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        status = 130  # before the command handles signals
    finally:
        os._exit(status)


DRAFT = re.compile(r"(^|/)\.(breaklab|draft)-[^/]*$")
NUMBER = re.compile(rb"\d[\d.e+-]*")


def contents(folder: Path) -> dict[str, bytes]:
    """The files in a folder, without the numbers that differ from run to run."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): NUMBER.sub(
            b"#", path.read_bytes().replace(bytes(folder), b"FOLDER")
        )
        for path in files
        if path.suffix not in (".lock", ".jsonl")
    }


def results(folder: Path) -> set[tuple[str, int]]:
    file = folder / "merged" / "results.jsonl"
    return {(r.submission, r.number) for r in ResultReader(ResultHeader).read(file)}


def run_without_a_fault(
    command: str, before: Path, tmp_path: Path
) -> tuple[Path, float, Counter[str]]:
    """Run a command; return what it writes, how long it takes, and what it calls."""
    folder, counts = tmp_path / "clean", tmp_path / "calls"

    def count() -> None:
        calls = wrap(list(CALLS), lambda _name, _number: False)
        originals = os._exit

        def end(status: int) -> None:
            counts.write_text(" ".join(name for name in calls.elements()))
            originals(status)

        os._exit = end  # type: ignore[assignment]

    for arm in (lambda: None, count):  # the second time, the results of runs are stored
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(before, folder)
        status, seconds = run(command, folder, Fault("none", arm), tmp_path / "log")
        assert status in (0, 1), (command, (tmp_path / "log").read_text())
    return folder, seconds, Counter(counts.read_text().split())


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_fault_leaves_the_older_file_or_the_newer_one(
    command: str, before: Path, tmp_path: Path
) -> None:
    new, seconds, calls = run_without_a_fault(command, before, tmp_path)
    older, newer = contents(before), contents(new)
    rng = Random(command)
    for _ in range(COMMANDS[command]):
        fault = draw(rng, seconds, calls)
        folder = Path(shutil.copytree(before, tmp_path / "work"))
        status, _ = run(command, folder, fault, tmp_path / "log")
        about = fault.kind, status, (tmp_path / "log").read_text()[-2000:]
        if "memory" not in fault.kind:  # without it, a library may even end the process
            assert status in (0, 1, 2, 3, -fault.number, 128 + fault.number), about
            assert "breaklab itself failed" not in about[2], about
            assert "Traceback" not in about[2], about
        found = contents(folder)
        drafts = {name for name in found if name.startswith(".copy-") or DRAFT.search(name)}
        assert not drafts or status < 0, about
        for name, content in found.items():
            if name not in drafts:
                assert content in (older.get(name), newer.get(name)), (name, *about)
        assert older.keys() <= found.keys(), about
        assert results(before) <= results(folder) <= results(new), about
        shutil.rmtree(folder)


def test_half_a_file_would_be_noticed(before: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(before, tmp_path / "work"))
    (folder / "a.html").write_bytes((folder / "a.html").read_bytes()[:-5])
    assert contents(folder)["a.html"] != contents(before)["a.html"]
