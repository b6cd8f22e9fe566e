"""Hostile engines: only their own run fails, no other is affected, and nothing is left behind.

A sample is a function in a file in `engines/`. It becomes `attack(tensor)`, which one probe's
backward pass calls; what stands in its file before the first sample stands before each of them.

Every sample stops by itself, so that a guard that fails does not take the machine along. Each is
always run in a forked child with namespaces of its own, unless it has to wait for a limit that
another sample reaches in the same way (`slow`); of the other ways, the default tier has one
sample of each kind without namespaces and two in a fresh interpreter. `pytest -m ""` runs each of
them in a fork with and without namespaces, and one of each file and end in a fresh interpreter.
"""

import ast
import ctypes
import os
import re
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.core.run import Run
from harness.engines.engine import Dialect
from harness.pages.probe import read_probes
from harness.runs.isolated import run_isolated
from harness.runs.protocol import Job, JobStep
from harness.sandbox.hosts import _idle
from harness.sandbox.limits import Limits
from tests.harness.tiny import TINY, hosted

HERE = Path(__file__).parent
SECONDS = 600.0
CPU_SECONDS = 100
"""The limits of a sample that is not about time, which a slow and busy machine keeps too."""

IN_OTHER_WAYS = {
    ("forked", "shared", "abort"),
    ("forked", "shared", "close_everything"),
    ("forked", "shared", "daemon_left_behind"),
    ("forked", "shared", "exit_at_once"),
    ("forked", "shared", "forge_another_run"),
    ("forked", "shared", "kill_its_group"),
    ("forked", "shared", "loop_in_python"),
    ("forked", "shared", "memory_at_once"),
    ("forked", "shared", "patch_the_sender"),
    ("forked", "shared", "settings_of_python"),
    ("spawned", "own", "exit_at_once"),
    ("spawned", "shared", "kill_its_group"),
}
"""The cases of the default tier beside each sample in a forked child with its own namespaces."""


@dataclass(frozen=True)
class Attack:
    """A sample, from `@ends(*ends, shared=, slow=, **limits)` and the function below it."""

    text: str
    ends: Sequence[str | None]
    """How its run may end: types of failures, None for success, "any" for either."""
    shared: Sequence[str | None] | None
    """The same without namespaces; None if it must not run without them."""
    file: str
    slow: bool
    limits: Mapping[str, float]


def _attacks(path: Path) -> Iterator[tuple[str, Attack]]:
    """The samples of a file, which is read and never imported."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    samples = [
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.decorator_list
    ]
    before = lines[: samples[0].decorator_list[0].lineno - 1]
    for node in samples:
        function = ["def attack(tensor):\n", *lines[node.lineno : node.end_lineno]]
        written = ast.unparse(node.decorator_list[0])
        ends, options = eval(written, {"ends": lambda *ends, **options: (ends, options)})  # noqa: S307  ours
        shared, slow = options.pop("shared", ends), options.pop("slow", False)
        text = "".join(before + function)
        yield node.name, Attack(text, ends, shared, path.name, slow, options)


ATTACKS = dict(item for path in sorted((HERE / "engines").glob("*.py")) for item in _attacks(path))


SPAWNED = {
    *{(attack.file, attack.ends): sample for sample, attack in ATTACKS.items()}.values(),
    *(sample for way, _, sample in IN_OTHER_WAYS if way == "spawned"),
}
"""One sample of each file and end. A fresh interpreter only starts in another way, and takes a
second of processor time each time."""


def _case(sample: str, way: str, world: str) -> Any:
    usual = (way, world) == ("forked", "own") and not ATTACKS[sample].slow
    in_default_tier = usual or (way, world, sample) in IN_OTHER_WAYS
    marks = [] if in_default_tier else [pytest.mark.slow]
    return pytest.param(
        sample, way == "forked", world == "own", id=f"{sample}-{way}-{world}", marks=marks
    )


def _ways(sample: str) -> Iterator[tuple[str, str]]:
    yield from (("forked", "own"), ("forked", "shared"))
    if ATTACKS[sample].shared is not None and sample in SPAWNED:
        yield "spawned", "shared"
    if ATTACKS[sample].shared is None or ("spawned", "own", sample) in IN_OTHER_WAYS:
        yield "spawned", "own"


CASES = [_case(sample, *way) for sample in sorted(ATTACKS) for way in _ways(sample)]

PROBES = (HERE / "canary.py").read_text(encoding="utf-8")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the samples are Linux programs")


def engine(sample: str) -> str:
    """The tiny engine with the sample's attack."""
    return f"{ATTACKS[sample].text}\n\n{attacked(TINY)}"


def attacked(text: str) -> str:
    """The engine, with a call of `attack` in its backward pass for arrays of 3 numbers."""
    line = "    def backward(self, cotangent):\n"
    assert line in text
    return text.replace(line, f"{line}        if self.data.size == 3:\n            attack(self)\n")


def job(text: str, root: Path, limits: Limits = Limits()) -> Job:  # noqa: B008  frozen
    """The attacked probe, one that is not attacked, and one that inspects the process."""
    probes = read_probes(PROBES, "probes.py")
    steps = (JobStep(0, "weighted"), JobStep(1, "weighted"), JobStep(2, None))
    return Job(Dialect("tiny"), str(root), {"tiny.py": text}, (), probes, steps, limits=limits)


@cache
def unharmed(fork: bool, namespaces: bool) -> list[Run]:
    """What the other two probes show where nobody attacks."""
    limits = Limits(namespaces=namespaces, seconds=SECONDS)
    text = f"def attack(tensor):\n    pass\n\n\n{TINY}"
    with hosted(fork):
        return run_isolated(job(text, Path("/nowhere"), limits))[1:]


@pytest.fixture
def playground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that a sample may try to change, and the parent of the scratch folders."""
    for name, file in (
        ("engine", "tiny.py"),
        ("catalogue", "page.md"),
        ("cache", "runs.sqlite"),
        ("home", ".profile"),
    ):
        (tmp_path / "field" / name).mkdir(parents=True)
        (tmp_path / "field" / name / file).write_text("# as it was", encoding="utf-8")
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    monkeypatch.setenv("BREAKLAB_SECRET", "a secret")
    return tmp_path


@pytest.fixture
def no_orphans() -> Iterator[None]:
    """Orphaned processes become children of this process; none must remain at the end."""
    libc = ctypes.CDLL(None)
    libc.prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
    yield
    libc.prctl(36, 0)
    end = time.monotonic() + 60
    while left_behind() and time.monotonic() < end:
        time.sleep(0.02)
    assert not left_behind()


def left_behind() -> list[str]:
    """The command lines of this process's descendants that are not idle hosts.

    A host is one process, or two with namespaces: the second is the first one of its own.
    """
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it may have ended meanwhile
                after_name = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2]
                state, parent = after_name.split()[:2]
                if not (state == "Z" and int(parent) == os.getpid()):
                    children.setdefault(int(parent), []).append(int(entry.name))
    hosts = {host.process.pid for waiting in _idle.values() for host in waiting}
    hosts |= {child for host in hosts for child in children.get(host, []) if is_first(child)}
    left, pending = [], [os.getpid()]
    while pending:
        below = children.get(pending.pop(), [])
        pending += below
        left += [child for child in below if child not in hosts]
    return [f"{pid}: {command_line(pid)}" for pid in left]


def is_first(pid: int) -> bool:
    """Whether the process is the first one of its PID namespace."""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text("utf-8")
        numbers = next(row for row in status.splitlines() if row.startswith("NSpid"))
        return numbers.split()[-1] == "1"
    return False


def command_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(("sample", "fork", "namespaces"), CASES)
@pytest.mark.usefixtures("no_orphans")
def test_an_attack_affects_only_its_own_run(
    sample: str,
    fork: bool,
    namespaces: bool,
    playground: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    attack = ATTACKS[sample]
    ends = attack.ends if namespaces else attack.shared
    if ends is None:
        pytest.skip("only namespaces guard against it")
    before = contents(playground / "field")
    generous: dict[str, Any] = {"seconds": SECONDS, "cpu_seconds": CPU_SECONDS}
    limits = Limits(**generous | attack.limits, namespaces=namespaces)
    with hosted(fork):
        runs = run_isolated(job(engine(sample), playground / "field" / "engine", limits))
    attacked, *others = runs
    kind = attacked.failure.type if attacked.failure else None
    assert kind in ends or "any" in ends, attacked.failure
    assert str(attacked.failure).isprintable()
    assert len(str(attacked.failure)) < 5000
    for run, quiet in zip(others, unharmed(fork, namespaces), strict=True):
        seen, expected = plain(run), plain(quiet)
        other = {key for key in seen | expected if seen.get(key) != expected.get(key)}
        assert {key: (seen.get(key), expected.get(key)) for key in other} == {}
    assert contents(playground / "field") == before
    assert list((playground / "scratch").glob("*/*")) == []
    assert capfd.readouterr() == ("", "")


def plain(run: Run) -> dict[str, object]:
    """A run without its duration; a log as numbers, which are easier to read."""
    fields = msgspec.structs.asdict(run)
    log = [{key: array.numpy().tolist() for key, array in step.items()} for step in run.log]
    return {**fields, "seconds": None, "log": None} | (log[-1] if log else {}) | {"steps": len(log)}


@pytest.mark.parametrize("namespaces", [True, False])
def test_a_program_that_listens_at_a_socket_cannot_be_reached(
    namespaces: bool, playground: Path
) -> None:
    name = f"breaklab-{os.getpid()}"
    stream, datagram = (
        "socket.socket(socket.AF_UNIX).connect",
        "socket.socketpair(type=2)[0].connect",
    )
    for address, kind, connect in (
        (str(playground / "stream"), socket.SOCK_STREAM, stream),
        (f"\0{name}", socket.SOCK_STREAM, stream),
        (str(playground / "datagram"), socket.SOCK_DGRAM, datagram),
    ):
        with socket.socket(socket.AF_UNIX, kind) as listens:
            listens.bind(address)
            if kind == socket.SOCK_STREAM:
                listens.listen()
            does = f"{connect}({address!r})"
            text = f"import socket\n\n\ndef attack(tensor):\n    {does}\n\n\n{attacked(TINY)}"
            limits = Limits(namespaces=namespaces)
            first, *_ = run_isolated(job(text, playground / "field" / "engine", limits))
        assert first.failure
        assert first.failure.type == "PermissionError"


def test_the_documentation_names_existing_samples() -> None:
    text = (HERE.parents[1] / "docs" / "safety.md").read_text(encoding="utf-8")
    rows = [line.rsplit("|", 2) for line in text.splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    assert len(named) > 40
    assert named <= set(ATTACKS)
