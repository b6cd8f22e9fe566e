"""Run tests on a mutated copy of the repository, in a forked process for each mutant.

The process that forks has imported the libraries, but nothing of the repository.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal

import pytest
from hypothesis import Phase, settings

from tests.strength.mutants import Mutant

LIBRARIES = (
    *("pytest", "_pytest.assertion.rewrite", "_pytest.pytester", "xdist.plugin", "unittest.mock"),
    *("hypothesis.strategies", "hypothesis.extra.numpy", "hypothesis.internal.conjecture.engine"),
    *("numpy.testing", "libcst.matchers", "libcst.metadata", "msgspec.msgpack", "markdown_it"),
    *("platformdirs", "rich.console", "rich.table", "typer.testing", "sqlite3"),
)
"""What the tests import; not PyTorch and autograd, which must not be loaded before a fork."""

COPIED = ("breaks", "docs", "harness", "minigrad", "tests", "*.md", "*.toml", "*.txt", "*.py")

START = 60.0
"""The limit on the seconds of processor time before the first test."""
SLOWER = 5.0
"""The limit on a test's processor time, as a multiple of its duration without a mutation,"""
GRACE = 30.0
"""plus this many seconds."""
PATIENCE = 10.0
"""The limit on elapsed time, as a multiple of these: a machine may be busy, and a test may wait."""

QUICK = 0.2
"""Seconds of a quick test."""

Verdict = Literal["killed", "timeout", "survived"]


@dataclass
class Trial:
    """The result of the tests on one program."""

    verdict: Verdict
    test: str = ""
    """The test that failed or took too long; empty if the modules could not be imported."""
    seconds: float = 0.0
    durations: dict[str, float] = field(default_factory=dict)
    """Seconds for each test that was run."""
    failed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Baseline:
    """What the tests do without a mutation."""

    durations: Mapping[str, float]
    failed: Sequence[str]
    """Tests that fail without a mutation; they are left out."""

    def limit(self, test: str) -> float:
        """Return the seconds of processor time that a test may use."""
        return SLOWER * self.durations.get(test, 0.0) + GRACE


def import_libraries() -> None:
    """Import what the tests need, once for all forked processes."""
    for name in LIBRARIES:
        importlib.import_module(name)


def copy_repository(root: Path, folder: Path) -> None:
    """Copy everything that the tests read."""
    for pattern in COPIED:
        for path in root.glob(pattern):
            if path.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", ".*")
                shutil.copytree(path, folder / path.name, ignore=ignored)
            else:
                shutil.copy(path, folder)


def run_mutant(
    root: Path,
    mutant: Mutant,
    files: Sequence[str],
    baseline: Baseline,
    log: Path,
) -> Trial:
    """Return what the quick tests in `files` do on the mutant, in the copy at `root`.

    The run stops at the first failure. The copy is restored. Tests that name the mutated module
    count as quick.
    """
    path = root / mutant.path
    source = path.read_bytes()
    path.write_bytes(mutant.apply(source))
    try:
        return run_tests(root, files, baseline, log, path.stem)
    finally:
        path.write_bytes(source)


def run_tests(
    root: Path,
    files: Sequence[str],
    baseline: Baseline,
    log: Path,
    stem: str | None = None,
) -> Trial:
    """Return what the tests in `files` do: all, or with a stem the quick ones up to a failure.

    `stem` is the name of the mutated module.
    """
    options = [*(["-x"] if stem else []), *(f"--deselect={test}" for test in baseline.failed)]
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="strength-", ignore_cleanup_errors=True) as scratch:
        plugin = partial(_Plugin, baseline, stem)
        pid, pipe = _fork(
            lambda end: _run_pytest(root, [*options, *files], scratch, log, plugin(end))
        )
        with pipe:
            trial = _watch(pipe, baseline, limited=bool(stem))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    trial.seconds = time.perf_counter() - begin
    return trial


def _fork(work: Callable[[int], None]) -> tuple[int, BinaryIO]:
    """Return the process that does the work, and what it writes to its descriptor."""
    begin, end = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(begin)
            os.setsid()
            work(end)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(end)
    return pid, os.fdopen(begin, "rb", buffering=0)


# ----- In the forked process -----


def _run_pytest(root: Path, arguments: list[str], scratch: str, log: Path, plugin: _Plugin) -> None:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    _move(root, scratch)
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "--rootdir", str(root)]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # imported before the fork
    status = pytest.main([*options, *arguments], plugins=[plugin])
    plugin.send("end", int(status))


def _move(root: Path, scratch: str) -> None:
    """Import everything from the copy, write nothing beside it, and begin with an empty cache."""
    os.chdir(root)
    os.environ |= {"TMPDIR": scratch, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    tempfile.tempdir = None
    sys.dont_write_bytecode = True
    original = str(Path(__file__).parents[2])
    sys.path[:] = [str(root), *(path for path in sys.path if path not in ("", original))]
    for name in list(sys.modules):
        if name.partition(".")[0] in ("tests", "harness", "minigrad", "breaks"):
            del sys.modules[name]
    importlib.invalidate_caches()


class _Plugin:
    """Orders, limits and reports the tests, and keeps Hypothesis from shrinking failures."""

    def __init__(self, baseline: Baseline, stem: str | None, end: int) -> None:
        self._limit = baseline.limit
        self._durations = baseline.durations
        self._names = {stem, stem.replace("_", "-")} if stem else set()
        self._end = end

    def send(self, kind: str, subject: Any, seconds: float = 0.0) -> None:
        """Send a kind, a test or an exit status, and seconds."""
        os.write(self._end, json.dumps((kind, subject, seconds)).encode() + b"\n")

    def _limit_processor_time(self, seconds: float) -> None:
        """Send a message when this process has used this much more processor time."""
        if self._names:
            signal.setitimer(signal.ITIMER_PROF, seconds)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        signal.signal(signal.SIGPROF, lambda *_: self.send("late", ""))
        self._limit_processor_time(START)
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("strength", settings(), phases=phases)
        settings.load_profile("strength")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """On a mutant, leave out slow tests, and begin with those that name the mutated module.

        Otherwise, a test module's tests stay together, since they share fixtures. Long tests that
        only count as quick come last.
        """
        if not self._names:
            return
        places = {path: place for place, path in enumerate(dict.fromkeys(i.path for i in items))}

        def is_near(item: pytest.Item) -> bool:
            return any(name in item.nodeid.rpartition("/")[2] for name in self._names)

        def is_slow(item: pytest.Item) -> bool:
            return self._durations.get(item.nodeid, 0.0) > QUICK

        def order(item: pytest.Item) -> tuple[bool, bool, int, float]:
            duration = self._durations.get(item.nodeid, 0.0)
            return is_slow(item), not is_near(item), places[item.path], duration

        items[:] = sorted((i for i in items if is_near(i) or not is_slow(i)), key=order)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._limit_processor_time(self._limit(nodeid))
        self.send("start", nodeid)

    def pytest_runtest_logfinish(self) -> None:
        """Limit what follows a test, such as the end of the session, as what precedes them."""
        self._limit_processor_time(START)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.send("fail", report.nodeid)
        self.send("took", report.nodeid, report.duration)


# ----- In the process that waits -----


def _watch(pipe: BinaryIO, baseline: Baseline, *, limited: bool) -> Trial:
    """Read the messages until the end, or until a test takes too long."""
    trial, current, rest = Trial("killed"), "", b""
    deadline = time.monotonic() + PATIENCE * START
    while True:
        wait = max(deadline - time.monotonic(), 0) if limited else None
        if not select.select([pipe], [], [], wait)[0]:
            trial.verdict, trial.test = "timeout", current
            return trial
        data = pipe.read(1 << 16)
        if not data:  # ended without a last message
            trial.test = current
            return trial
        *lines, rest = (rest + data).split(b"\n")
        for kind, subject, seconds in map(json.loads, lines):
            if kind == "start":
                current = subject
                deadline = time.monotonic() + PATIENCE * baseline.limit(current)
            elif kind == "late":
                trial.verdict, trial.test = "timeout", current
                return trial
            elif kind == "took":
                trial.durations[subject] = trial.durations.get(subject, 0.0) + seconds
            elif kind == "fail":
                trial.failed.append(subject)
                trial.test = trial.test or subject
            elif kind == "end":
                if subject in (0, 5):  # 5: no test is selected
                    trial.verdict = "survived"
                return trial
