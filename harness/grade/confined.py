"""In the confined process: collect an untrusted suite, and run its tests in forks.

The process is sent one run at a time. Each run has a fork and a pipe of its own, and when it has
ended, every process that it left behind is killed and the scratch folder is emptied. After the
collection, the suite may have changed anything in this process. It can forge what it likes, but
nothing here says which run is a break, and it cannot see the code that is run: see
`harness.grade.blinding`. A process that is not blind compares the calls of two versions; it starts
when all verdicts are final, and nothing depends on what it reports but the reasons of survivors.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

import msgspec
import pytest
from _pytest.config import ConftestImportFailure, _prepareconfig, default_plugins

from harness.answer_key.walks import visits
from harness.core.site import HOOKS
from harness.engines.engine import Dialect
from harness.engines.library import Library
from harness.engines.loading import MemoryFinder
from harness.grade.blinding import Keeper, SealedFinder, private_keeper
from harness.grade.files import write_files, written_files
from harness.grade.protocol import (
    LIMIT_REACHED,
    MOST_BYTES,
    MOST_TESTS,
    Collect,
    Collected,
    Compared,
    Ended,
    ForkOutput,
    HostedEngine,
    Refused,
    RunRequest,
    SuiteReply,
    TestEvent,
    encode_event,
    split_events,
    unpack,
    unpack_message,
)
from harness.grade.reach import CALLS, Code
from harness.grade.running import (
    CollectedSuite,
    Recording,
    TestCalls,
    comparison_of,
    describe,
    discard_output,
    fix_hypothesis,
    warm_hypothesis,
)
from harness.grade.settings import pytest_options
from harness.runs.comparison import Comparer
from harness.runs.observer import pack_step
from harness.runs.recorder import FEW_CALLS, Recorder
from harness.sandbox.child import ChildWork, Line
from harness.sandbox.fork import Sender, adopt_descendants, end_others
from harness.sandbox.frames import Frame, write_all
from harness.sandbox.host import Prepare
from harness.sandbox.limits import Limits, empty_folder, end_after, restart_cpu_limit

KIND = b"G"
"""The kind of the frames."""


def open_host(*libraries: str) -> Prepare:
    """In a host: import the libraries; return the function that prepares tasks for children."""
    for library in (*(f"_pytest.{plugin}" for plugin in default_plugins), *libraries):
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    warm_hypothesis()
    return _prepare


def _prepare(data: bytes) -> ChildWork:
    task = msgspec.msgpack.decode(data, type=HostedEngine)
    code = Code(Path(task.root), {}, unpack(task.files))
    return partial(_serve, task.dialect, code, [private_keeper()])


def _serve(
    dialect: Dialect, code: Code, keepers: list[Callable[..., Any]], line: Line
) -> Iterator[Frame | bytes]:
    """Collect the suite when the first frame is requested, then carry out a run for each."""
    adopt_descendants()
    suite, collected = _collect(_open_suite(dialect, code, keepers, line))
    if suite.tests is not None:
        suite.tests.warm()
    yield _frame(collected)
    while True:
        run = msgspec.msgpack.decode(line.read_message(), type=RunRequest)
        yield _frame(_run_in_fork(suite, run, line))


def _frame(reply: SuiteReply) -> Frame:
    return Frame(KIND, msgspec.msgpack.encode(reply))


# ----- The collection -----


def _open_suite(
    dialect: Dialect, code: Code, keepers: list[Callable[..., Any]], line: Line
) -> _Suite:
    """Read what is collected, and become blind to the engine's code.

    The frames of the callers exist as long as the suite runs, so no secret may stay in them.
    """
    order = msgspec.msgpack.decode(line.read_message(), type=Collect)
    is_clean = not order.changed
    if not order.blind:
        current = {**code.files, **unpack_message(order.changed)}
        finder = MemoryFinder(code.root, dict.fromkeys(current, ""), (), HOOKS, current)
        keeper = _show(code, current)
        next(keeper)
        return _Suite(dialect, code, order, keeper, finder, list, is_clean, Comparer())
    keeper, loaders, refused = keepers.pop()(code.root, code.files, order.key, order.changed)
    order = msgspec.structs.replace(order, key=b"", changed=b"")
    sealed = SealedFinder(code.root, loaders)
    return _Suite(dialect, code, order, keeper, sealed, refused, is_clean)


def _show(code: Code, current: dict[str, CodeType]) -> Keeper:
    """Do what the keeper does, in a process that is not blind."""
    reply: object = None
    while True:
        request, *arguments = yield reply
        if request == "collected":
            functions = code.functions(arguments[0])
        elif request == "swap":
            codes = unpack_message(arguments[0])
            pairs = functions.plan(codes)
            if pairs is not None:
                functions.swap(pairs)
                current.update(codes)
            reply = pairs is not None


class _Suite:
    """A collected suite, and the engine that it has imported."""

    def __init__(
        self,
        dialect: Dialect,
        code: Code,
        order: Collect,
        keeper: Keeper,
        finder: MemoryFinder,
        take_refused: Callable[[], list[str]],
        is_clean: bool,
        comparer: Comparer | None = None,
    ) -> None:
        self.dialect, self.code, self.order = dialect, code, order
        self.keeper, self.finder, self.is_clean = keeper, finder, is_clean
        self.take_refused = take_refused
        self.comparer = comparer
        """Compares calls in a process that is not blind."""
        if comparer is not None:
            comparer.install()
        self.scratch = Path.cwd()
        self.root = self.current = self.scratch / order.folder
        """The folder of the submission, and the current folder when a run begins."""
        self.files = {f"{order.folder}/{name}": data for name, data in order.files.items()}
        """What a run finds in the scratch folder."""
        self.tests: CollectedSuite | None = None
        """None if there are none, or none that can be run."""

    def write_files(self) -> None:
        """Write the files into the scratch folder, which contains nothing else afterwards."""
        empty_folder(self.scratch)
        write_files(self.scratch, self.files)
        os.chdir(self.current if self.current.is_dir() else self.scratch)

    def keep_files(self) -> None:
        """Let every run begin with the files and in the folder that the collection left."""
        with contextlib.suppress(OSError):  # the folder may have been removed
            self.current = Path.cwd()
        self.files = written_files(self.scratch)

    def import_paths(self) -> list[str]:
        """Return the folders that modules of the submission are imported from.

        They are those that pytest would add for the tests, the submission's folder, `src` in it,
        and the folder around it, which holds nothing else.
        """
        paths = [_folder_of_package(self.root / name) for name in self.order.tests]
        paths += [self.root, self.root / "src", self.scratch]
        return list(dict.fromkeys(str(path) for path in paths if path.is_dir()))


def _collect(suite: _Suite) -> tuple[_Suite, Collected]:
    order = suite.order
    problems = _CollectionProblems(suite.root)
    items: list[pytest.Item] = []
    suite.write_files()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    others = [entry for entry in sys.path if entry not in ("", *order.hidden)]
    sys.path[:] = [*suite.import_paths(), *others]
    sys.meta_path.insert(0, suite.finder)
    fix_hypothesis()
    if suite.is_clean:  # a changed engine is loaded for one purpose, and nothing is replaced there
        suite.keeper.send(("record",))
        CALLS.notes_inspections = not order.blind  # a blind process refuses them
        CALLS.start()
    with contextlib.suppress(BaseException):  # if a test imports it, that raises the same again
        importlib.import_module(suite.dialect.module)  # before any other threads run
    try:
        engine = _EngineFixture(suite.dialect)
        session = _session(order, [problems, engine])
        sys.meta_path.insert(0, suite.finder)  # again, before pytest's own hook
        session.config.hook.pytest_collection(session=session)
        items = list(session.items)
        if any("lib" in getattr(item, "fixturenames", ()) for item in items):
            engine.load()  # once, and not in every fork
    except BaseException as error:  # pytest's own errors, and what a module may raise at its import
        problems.note(error)
    complete = suite.is_clean and CALLS.stop()
    called = list(CALLS.take())
    suite.keeper.send(("collected", called if complete else None))
    suite.keep_files()
    if len(items) > MOST_TESTS:
        return suite, Collected([], f"it has more than {MOST_TESTS} tests", "many")
    if problems.first:
        return suite, problems.first
    if not items:
        return suite, Collected([], "it has no tests", "empty")
    suite.tests = CollectedSuite(items, suite.code, None)
    refused = suite.take_refused()
    return suite, Collected([item.nodeid for item in items], refused=refused)


def _session(order: Collect, plugins: list[object]) -> pytest.Session:
    """Return a session of pytest, with no plugins but its own and these."""
    is_file = list(order.files) == order.tests
    options = pytest_options(Path.cwd(), _import_mode(order), is_file=is_file)
    config = _prepareconfig(options, plugins)
    session = pytest.Session.from_config(config)
    config._do_configure()  # what `pytest.main` does, without the end of a session
    config.hook.pytest_sessionstart(session=session)
    return session


def _folder_of_package(file: Path) -> Path:
    """Return the folder that a file is imported from: the first one that is not a package."""
    folder = file.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _import_mode(order: Collect) -> str:
    """Return pytest's own mode, or `importlib` if files could not be imported by their names."""
    folders = {str(Path(name).parent) for name in order.files if Path(name).name == "__init__.py"}
    alone = [Path(name).stem for name in order.tests if str(Path(name).parent) not in folders]
    clash = len(set(alone)) < len(alone) or any("." in Path(name).stem for name in order.tests)
    return "importlib" if clash else "prepend"


class _EngineFixture:
    """The fixture `lib`: the engine, as the tests of an exercise take it."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.module: Any = None

    def load(self) -> Any:
        """Return the engine as probes know it. Raises what its import raises."""
        if self.module is None:
            module = importlib.import_module(self.dialect.module)
            if self.dialect.kind is None:
                self.module = module
            else:
                from harness.engines.adapter import open_library  # for foreign engines

                self.module = open_library(self.dialect, module).module
        return self.module

    @pytest.fixture
    def lib(self) -> Any:
        """Return the engine under test."""
        return self.load()


class _CollectionProblems:
    """Notes the first problem of a collection."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.first: Collected | None = None

    def pytest_exception_interact(self, node: pytest.Collector, call: Any) -> None:
        """Note a file that cannot be imported."""
        self.note(call.excinfo.value, node.nodeid)

    def note(self, error: BaseException, where: str = "") -> None:
        """Note an exception, unless there was one before."""
        if isinstance(error, ConftestImportFailure):
            where = os.path.relpath(error.path, self.root)
        raised = describe(error.__cause__ or error)
        text = f"{where} cannot be imported: {raised.text}".lstrip()
        self.first = self.first or Collected([], text, "raised", where, raised)


# ----- A run -----


def _run_in_fork(suite: _Suite, run: RunRequest, line: Line) -> ForkOutput:
    """Run tests in a fork; return what it reports until it ends or has done what was asked."""
    fork = Sender(partial(_work, suite, run), closed=line.pipes[:2])
    try:
        return _ForkReader(fork, run).read()
    finally:
        fork.close()
        end_others(isolated=False)
        suite.write_files()


class _ForkReader:
    """Reads what a fork reports."""

    def __init__(self, fork: Sender, run: RunRequest) -> None:
        self.fork, self.run = fork, run
        self.data, self.rest, self.done = b"", b"", 0
        """Everything, what follows the last complete event, and the number of tests that ended."""

    def read(self) -> ForkOutput:
        """Return the events, up to the end of the fork or the last test that is needed."""
        end = time.monotonic() + self.run.seconds
        while piece := self.fork.read(65536, end):
            self.data, self.rest = self.data + piece, self.rest + piece
            if self._is_complete():
                return ForkOutput(self.data)
            if len(self.data) > MOST_BYTES:
                return ForkOutput(b"", "it reports too much")
        status = self.fork.wait(end)
        if status is None:
            return ForkOutput(self.data, LIMIT_REACHED, late=True)
        late = os.WIFSIGNALED(status) and os.WTERMSIG(status) in _OUT_OF_TIME
        return ForkOutput(self.data, _how(status), late)

    def _is_complete(self) -> bool:
        events, self.rest = split_events(self.rest)
        for event in events:
            if isinstance(event, Refused | Compared):
                return True
            self.done += 1
            if event.test == self.run.until or (self.run.stop and event.result == "failed"):
                return True
        return self.done >= len(self.run.tests)


_OUT_OF_TIME = {getattr(signal, name, None) for name in ("SIGXCPU", "SIGPROF")}


def _how(status: int) -> str:
    """Return how a process ended, from its wait status."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"the process ended with status {code}"
    if -code in _OUT_OF_TIME:
        return LIMIT_REACHED
    with contextlib.suppress(ValueError):
        return f"the process ended with {signal.Signals(-code).name}"
    return f"the process ended with signal {-code}"


# ----- In the fork -----


def _work(suite: _Suite, run: RunRequest, pipe: int) -> None:
    """Replace the code, run the tests, and report each."""
    restart_cpu_limit(Limits(cpu_seconds=math.ceil(run.cpu_seconds)))
    end_after(run.cpu_seconds)
    discard_output()
    if run.changed and not suite.keeper.send(("swap", run.changed)):
        _report(pipe, Refused())
        return
    if suite.comparer is None:
        _run_tests(suite, run, pipe)
    else:
        _compare(suite, suite.comparer, run, pipe)


def _run_tests(suite: _Suite, run: RunRequest, pipe: int) -> None:
    tests = suite.tests
    assert tests is not None
    recording, recorder = Recording(), Recorder(FEW_CALLS)
    limits = dict(zip(run.tests, run.each, strict=True))
    if run.trail:
        recorder.install()
    if run.record:
        suite.keeper.send(("record",))
        tests.items[0].config.pluginmanager.register(recording)

    @contextlib.contextmanager
    def reported(index: int) -> Iterator[None]:
        end_after(limits[index])
        recorder.clear()
        start, used = time.perf_counter(), time.process_time()
        steps: list[Any] = []
        recorded = recording.of(tests.items[index]) if run.record else nullcontext(TestCalls())
        with recorded as record, _tracing(suite.dialect, steps) if run.trail else nullcontext():
            yield
        seconds = round(time.perf_counter() - start, 6)
        cpu_seconds = round(time.process_time() - used, 6)
        called, outcomes = record.called, tests.outcomes
        reached = None if called is None else sorted(tests.code.numbers(called))
        trail = {**recorder.trail, **visits(map(pack_step, steps), FEW_CALLS)}
        refused = suite.take_refused()
        ended = Ended(
            index, outcomes.result, seconds, outcomes.raised, reached, trail, cpu_seconds, refused
        )
        _report(pipe, ended)

    for _ in tests.run(run.tests, stop=run.stop, around=reported):
        pass  # each test has been reported


def _compare(suite: _Suite, comparer: Comparer, run: RunRequest, pipe: int) -> None:
    """Run the tests until a call gives a wrong number; report what the calls show."""
    assert suite.tests is not None
    limits = dict(zip(run.tests, run.each, strict=True))

    @contextlib.contextmanager
    def compared(index: int) -> Iterator[None]:
        end_after(limits[index])
        with comparer.during(index):
            yield
        if comparer.result.wrong_test is not None:  # this fork is ended when it is read
            _report(pipe, Compared(comparer.result))

    failing = suite.tests.run(run.tests, stop=False, around=compared, until=comparer.is_decided)
    _report(pipe, Compared(comparison_of(comparer, failing)))


@contextlib.contextmanager
def _tracing(dialect: Dialect, steps: list[Any]) -> Iterator[None]:
    """Record the backward walks inside, if the engine is loaded and can record them."""
    module = sys.modules.get(dialect.module)
    if module is None or dialect.kind is not None:
        yield
        return
    with Library(dialect, module).tracing(steps):
        yield


def _report(pipe: int, event: TestEvent) -> None:
    write_all(pipe, encode_event(event))
