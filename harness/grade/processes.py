"""The confined processes of a suite: one for the engine, and one for each engine that is loaded."""

from __future__ import annotations

import math
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import msgspec

from harness.core import PACKAGES
from harness.core.errors import EnvironmentProblem
from harness.core.message import message, visible
from harness.core.vocabulary import Phase
from harness.engines.engine import Engine
from harness.grade.blinding import sealed_codes
from harness.grade.feedback import ENDED, SubmissionWords
from harness.grade.files import NotGradable, Said, SubmittedFiles
from harness.grade.plan import GradingPlan
from harness.grade.protocol import (
    LIMIT_REACHED,
    LONGEST_MESSAGE,
    LONGEST_NAME,
    MOST_TESTS,
    Collect,
    Collected,
    Compared,
    Ended,
    ForkOutput,
    HostedEngine,
    PackedCodes,
    Raised,
    Refused,
    RunRequest,
    SuiteReply,
    decode_reply,
    split_events,
)
from harness.runs.comparison import CallComparison
from harness.runs.isolated import engine_paths, failure_of_child
from harness.sandbox.fork import require_fork
from harness.sandbox.frames import Frame
from harness.sandbox.hosts import Opening
from harness.sandbox.limits import Limits
from harness.sandbox.worker import NoFrame, Worker, hosted_worker

PATIENCE, CPU_PATIENCE = 30.0, 5.0
"""Seconds that the tests may take on a changed engine, on top of twenty times their usual time: of
wall time, and of processor time. A test that trains until it succeeds may take much longer on a
broken engine."""

LONGER = 1000
"""A single test gets this many times its usual time instead of `CPU_PATIENCE`, if that is less.

A test that trains for 20 steps may take up to 10,000 on a broken engine: 500 times as many, on any
machine. Twenty times the time of all tests is added even for a single one, for work that an earlier
test used to do, such as setting up a shared fixture.
"""

MOST_LOST, MOST_LATE = 3, 6
"""Grading stops after the process has ended this often, or after this many runs out of time."""

_LIMITS = frozenset({"TimeLimit", "ProcessorTimeLimit", "SIGKILL"})
"""The types of a failure at a limit; who starts too many processes is killed."""

_FORKS = 3000
"""The number of processes that one suite may start in all."""


@dataclass(frozen=True)
class EngineResults:
    """The results of the tests on an engine."""

    ended: Mapping[int, Ended] = field(default_factory=dict)
    """The tests that ended."""
    problem: str = ""
    """How the process ended if it did not end by itself."""
    path: Literal["swapped", "reloaded"] = "swapped"

    @property
    def failed(self) -> list[int]:
        """The tests that failed, in the order in which they ended."""
        return [test for test, ended in self.ended.items() if ended.result == "failed"]


class Processes:
    """The processes of one suite; `close` ends them."""

    def __init__(self, path: Path, submitted: SubmittedFiles, plan: GradingPlan) -> None:
        self.submitted, self.plan = submitted, plan
        self.words, self.test_files = SubmissionWords(submitted), submitted.tests()
        own = path if path.is_dir() else path.parent
        around = own.resolve().parent  # it may contain the submission of another student
        hidden = (*plan.hidden, own, *_without_libraries(around))
        visible = engine_paths(plan.engine.root, plan.engine.sources, (*hidden, around))
        texts = tuple(map(str, _texts(plan.engine)))
        self.limits = replace(plan.limits, visible=visible, hidden=(*_hidden(hidden, plan), *texts))
        self.tests: list[str] = []
        self.seconds = self.cpu_seconds = 0.0
        """The wall time and the processor time of all tests on the engine without a break."""
        self.usual: Mapping[int, float] = {}
        """The longest time that each test took on that engine."""
        self.refused: dict[str, set[str]] = {}
        """How tests tried to look at the engine's code, by test; "" is for their import."""
        self._main: _SuiteProcess | None = None
        self._showing: _SuiteProcess | None = None
        """The process that is not blind."""
        self._lost = self._late = 0

    def collect(self) -> None:
        """Collect the tests on the engine without a break. Raises NotGradable."""
        self._main = self._start()

    def observe(
        self,
        changed: PackedCodes,
        tests: Sequence[int],
        *,
        until: int | None = None,
        stop: bool = False,
        record: bool = False,
        trail: bool = False,
        reload: bool = False,
        if_reloaded: Sequence[int] | None = None,
    ) -> EngineResults:
        """Run tests on the engine with these files changed.

        Code that cannot be replaced is loaded by a new process; with `reload`, all code is. That
        process runs the tests `if_reloaded`, by default the same ones. Raises NotGradable if the
        processes end too often.
        """
        seconds, cpu_seconds = self.limits.seconds, float(self.limits.cpu_seconds)
        if self.seconds:
            seconds = min(seconds, PATIENCE + 20 * self.seconds)
            cpu_seconds = min(cpu_seconds, CPU_PATIENCE + 20 * self.cpu_seconds)
        each = [min(cpu_seconds, self._cpu_limit(test)) for test in tests]
        run = RunRequest(b"", list(tests), seconds, cpu_seconds, each, until, stop, record, trail)
        if not reload:
            if self._main is None:
                self._main = self._start()
            sealed = self._main.seal(changed, visible=trail)
            observed = self._observed(self._main, msgspec.structs.replace(run, changed=sealed))
            if observed is not None:
                return observed
            if if_reloaded is not None:
                return self.observe(
                    changed,
                    if_reloaded,
                    until=until,
                    stop=stop,
                    record=record,
                    trail=trail,
                    reload=True,
                )
        return self._reloaded(changed, run)

    def compare(
        self, changed: PackedCodes, tests: Sequence[int], seconds: float
    ) -> CallComparison | None:
        """Run tests on code that compares two versions of itself; return what their calls show.

        None if that is not known, also because it takes longer than these seconds. To look at calls
        means to look at code, so the process is not blind: the suite can learn there what a break
        changes, and report what it likes. Its results count for nothing.
        """
        seconds = min(self.limits.seconds, seconds)
        cpu_seconds = float(self.limits.cpu_seconds)  # a comparison takes longer than the tests
        each, codes = [cpu_seconds] * len(tests), msgspec.msgpack.encode(changed)
        run = RunRequest(codes, list(tests), seconds, cpu_seconds, each)
        try:
            if self._showing is None:
                self._showing = self._load({}, blind=False)
            found = self._compared(self._showing, run)
            if found != Refused():
                return found.comparison if isinstance(found, Compared) else None
            process = self._load(changed, blind=False)  # the code cannot be replaced
            try:
                found = self._compared(process, msgspec.structs.replace(run, changed=b""))
                return found.comparison if isinstance(found, Compared) else None
            finally:
                process.end()
        except EnvironmentProblem:  # no process can be started any more
            return None

    def _compared(self, process: _SuiteProcess, run: RunRequest) -> Compared | Refused | None:
        """Return what a process that is not blind reports, if that is valid."""
        if process.lost or process.collected.tests != self.tests:
            return None
        events, _ = split_events(process.run(run).events)
        for event in events:
            if isinstance(event, Refused):
                return event
            if isinstance(event, Compared):
                wrong = event.comparison and event.comparison.wrong_test
                return event if wrong in (None, -1, *run.tests) else None  # -1: before any test
        return None

    def close(self) -> None:
        """End all processes, and everything that they have started."""
        for process in filter(None, (self._main, self._showing)):
            process.end()

    def set_usual_times(self, runs: Sequence[EngineResults]) -> None:
        """Derive the limits from how long the tests took on the engine without a break."""
        self.seconds = max(sum(e.seconds for e in run.ended.values()) for run in runs)
        self.cpu_seconds = max(sum(e.cpu_seconds for e in run.ended.values()) for run in runs)
        # Some kernels count the processor time of a short test as zero.
        self.usual = {
            test: max(max(run.ended[test].seconds, run.ended[test].cpu_seconds) for run in runs)
            for test in runs[0].ended
        }

    def _cpu_limit(self, test: int) -> float:
        """Return the processor time that one test may take."""
        usual = self.usual.get(test)
        return math.inf if usual is None else LONGER * usual + 20 * self.cpu_seconds

    def _start(self) -> _SuiteProcess:
        process = self._load({})
        try:
            self._accept(process.collected)
        except NotGradable:
            process.end()
            raise
        return process

    def _accept(self, collected: Collected) -> None:
        """Accept the tests, whose ids a hostile suite may choose freely. Raises NotGradable."""
        tests = collected.tests
        if collected.problem:
            raise NotGradable("{problem}", problem=self.words.collection(collected))
        if len(tests) > MOST_TESTS:
            raise NotGradable("it has more than {most} tests", most=MOST_TESTS)
        if len(set(tests)) < len(tests) or any(len(name) > LONGEST_NAME for name in tests):
            raise NotGradable("two of its tests have the same name, or a name is too long")
        if self.tests and tests != self.tests:
            raise NotGradable("collecting it twice gives different tests")
        self.tests = tests
        self._note_refused("", collected.refused)

    def _note_refused(self, test: str, events: Iterable[str]) -> None:
        for event in events:
            self.refused.setdefault(test, set()).add(event)

    def _load(self, changed: PackedCodes, *, blind: bool = True) -> _SuiteProcess:
        """Start a process that has collected the tests on the engine with these files changed."""
        engine, submitted = self.plan.engine, self.submitted
        task = HostedEngine(str(engine.root), self.plan.packed_files, engine.dialect)
        order = Collect(
            files=submitted.files,
            folder=submitted.folder,
            tests=self.test_files,
            hidden=list(self.limits.hidden),
            blind=blind,
        )
        return _SuiteProcess(task, order, changed, self.limits)

    def _reloaded(self, changed: PackedCodes, run: RunRequest) -> EngineResults:
        """Run the tests in a new process; all fail there if they cannot be collected."""
        process = self._load(changed)
        try:
            if process.lost:
                self._count_late(1)
                return EngineResults(problem=process.collected.problem, path="reloaded")
            numbers = {name: index for index, name in enumerate(process.collected.tests)}
            missing = [test for test in run.tests if self.tests[test] not in numbers]
            if missing:
                reason = process.collected.problem or "it is not collected"
                first = Ended(missing[0], "failed", 0.0, Raised(reason[:LONGEST_MESSAGE]))
                return EngineResults({missing[0]: first}, path="reloaded")
            names = {numbers[self.tests[test]]: test for test in run.tests}
            until = None if run.until is None else numbers[self.tests[run.until]]
            there = msgspec.structs.replace(run, tests=list(names), until=until)
            observed = self._observed(process, there)
            assert observed is not None  # nothing is replaced there
            ended = {
                names[test]: msgspec.structs.replace(event, test=names[test])
                for test, event in observed.ended.items()
            }
            return EngineResults(ended, observed.problem, "reloaded")
        finally:
            process.end()

    def _observed(self, process: _SuiteProcess, run: RunRequest) -> EngineResults | None:
        """Return what a run reports; None if the code cannot be replaced."""
        finished = process.run(run)
        if process.lost:
            self._lost += 1
            if process is self._main:
                self._main = None
            if self._lost > MOST_LOST:
                how = Said(finished.problem, ENDED)
                raise NotGradable("the process that runs its tests ended: {how}", how=how)
        self._count_late(finished.late)
        events, _ = split_events(finished.events)
        if any(isinstance(event, Refused) for event in events):
            return None if run.changed else EngineResults(problem="it refused to run the tests")
        allowed = set(run.tests)
        ended: dict[int, Ended] = {}
        for event in events:
            if isinstance(event, Ended) and event.test in allowed:
                ended.setdefault(event.test, event)  # a test cannot take back its result
                if process is self._main:  # its test numbers are the same as ours
                    self._note_refused(self.tests[event.test], event.refused)
        return EngineResults(ended, finished.problem)

    def _count_late(self, times: int) -> None:
        self._late += times
        if self._late > MOST_LATE:
            raise NotGradable("its tests ran out of time {times} times", times=self._late)


def _hidden(folders: Iterable[Path], plan: GradingPlan) -> tuple[str, ...]:
    """Return the folders that contain nothing that the process needs."""
    needed = [Path(sys.prefix), Path(sys.base_prefix), Path(tempfile.gettempdir())]
    needed += [PACKAGES / "harness", plan.engine.root]
    needed = [path.resolve() for path in needed]
    return tuple(
        str(folder)
        for folder in (folder.resolve() for folder in folders)
        if not any(path.is_relative_to(folder) for path in needed)
    )


def _texts(engine: Engine) -> list[Path]:
    """Return the engine's files, which are imported from memory, and its bytecode folders."""
    files = [engine.root / file for file in engine.sources]
    folders = {file.parent / "__pycache__" for file in files}
    return [path for path in (*files, *sorted(folders)) if path.exists()]


def _without_libraries(folder: Path) -> list[Path]:
    """Return the folder, unless something is imported from it."""
    libraries = (Path(entry).resolve() for entry in sys.path)
    return [] if any(path.is_relative_to(folder) for path in libraries) else [folder]


_LIBRARIES = "hypothesis", "scipy", "torch"
"""Libraries whose import takes longer than most suites do, the largest last."""


def libraries_for(files: Iterable[bytes]) -> tuple[str, ...]:
    """Return the libraries that a host imports once for all submissions with similar files.

    These are the libraries that the files name, and all smaller ones. So a process that grades many
    submissions keeps at most four hosts, and forks of the smallest one are cheap.
    """
    text = b"\0".join(files)
    named = [i for i, library in enumerate(_LIBRARIES, 1) if library.encode() in text]
    return _LIBRARIES[: max(named, default=0)]


class _SuiteProcess:
    """A confined process that has collected the suite."""

    def __init__(
        self, task: HostedEngine, order: Collect, changed: PackedCodes, limits: Limits
    ) -> None:
        require_fork(message("grading tests"))
        self.limits, self.lost = limits, False
        self._key, self._sealed = os.urandom(32), 0
        if order.blind:
            sealed = self.seal(changed, visible=False)
            order = msgspec.structs.replace(order, key=self._key, changed=sealed)
        elif changed:
            order = msgspec.structs.replace(order, changed=msgspec.msgpack.encode(changed))
        # Once the suite is collected, a library that needs `ctypes` can no longer be loaded.
        libraries = ("ctypes", "numpy.testing", *libraries_for(order.files.values()))
        opening = Opening("harness.grade.confined:open_host", libraries)
        data = msgspec.msgpack.encode(task)
        self.worker: Worker = hosted_worker(opening, data, limits, _FORKS)
        reply = self._request("collecting the tests", order)
        if isinstance(reply, ForkOutput):
            reply = Collected([], reply.problem or "the collection sent something else")
        self.collected = reply

    def seal(self, codes: PackedCodes, *, visible: bool) -> bytes:
        """Return files that only the confined process can read, but not its suite."""
        self._sealed += 1
        return sealed_codes(self._key, self._sealed.to_bytes(16, "big"), codes, visible=visible)

    def run(self, run: RunRequest) -> ForkOutput:
        """Carry out a run."""
        reply = self._request("running the tests", run)
        return reply if isinstance(reply, ForkOutput) else ForkOutput(b"", "it sent something else")

    def end(self) -> None:
        """End the process, and everything that it has started."""
        self.worker.end()

    def _request(self, phase: str, order: Collect | RunRequest) -> SuiteReply:
        seconds = order.seconds + PATIENCE if isinstance(order, RunRequest) else self.limits.seconds
        frame = self.worker.request(seconds, msgspec.msgpack.encode(order))
        reply = decode_reply(frame.payload) if isinstance(frame, Frame) else None
        if reply is not None:
            return reply
        self.lost = True
        answer = frame if isinstance(frame, NoFrame) else NoFrame.REFUSED
        failure = failure_of_child(self.worker, answer, self.limits, Phase.RUN)
        self.worker.end()
        late = answer is NoFrame.LATE
        if failure.type in _LIMITS:
            return ForkOutput(
                b"",
                LIMIT_REACHED if isinstance(order, RunRequest) else f"{phase}: {LIMIT_REACHED}",
                late,
            )
        return ForkOutput(b"", visible(f"{phase}: {failure.message}"), late)
