"""Running the tests of a collected suite, in forks of the process that has collected it.

`pytest --breaks` and `harness grade` run tests this way, without pytest's reports. They differ
in what confines the process, which engines are tried, and who may read what a run raises.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Literal

import pytest
from _pytest._code.code import ExceptionChainRepr, ReprFileLocation, ReprTraceback
from _pytest.fixtures import FixtureLookupError
from _pytest.runner import runtestprotocol
from _pytest.skipping import xfailed_key

from harness.core.run import message_of
from harness.engines.loading import FileCodes, Replacement, find_in_memory
from harness.grade.protocol import LONGEST_MESSAGE, Raised, TestResult
from harness.grade.reach import CALLS, Code

if TYPE_CHECKING:
    from harness.runs.comparison import CallComparison, Comparer


def run_in_order(
    outcomes: Outcomes,
    items: Sequence[pytest.Item],
    order: Sequence[int],
    *,
    stop: bool,
    around: Callable[[int], AbstractContextManager[object]] = nullcontext,
    until: Callable[[], bool] = bool,
) -> Iterator[int]:
    """Run the tests in this order, each in its context; yield those that fail.

    With `stop`, the first one that fails is the last one; so is the one after which `until` is
    true. `outcomes` must have been registered, preferably before the process was forked.
    """
    for position, index in enumerate(order):
        if stop:
            stop_at_the_first_example(items[index])
        following = order[position + 1 : position + 2]
        with around(index):
            outcomes.run(items[index], items[following[0]] if following else None)
        if outcomes.result == "failed":
            yield index
            if stop:
                return
        if until():
            return


def locate(items: Iterable[pytest.Item]) -> None:
    """Make pytest look up the location of each test now, so that it need not in every fork."""
    for item in items:
        str(item.location)


class Outcomes:
    """A plugin that runs tests without reporting them, and notes how the last one ended."""

    def __init__(self) -> None:
        self.result: TestResult = "skipped"
        self.raised = Raised()
        """The exception of a test that failed."""

    def run(self, item: pytest.Item, following: pytest.Item | None) -> None:
        """Run a test with its fixtures; `following` is the test that comes next."""
        self.result, self.raised = "skipped", Raised()
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run setup, test and teardown, and note whether one of them fails."""
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        failed = [report for report in reports if report.failed]
        if failed:
            self.result = "failed"
            if not self.raised.type:  # it passes, although its mark says that it must fail
                self.raised = Raised(f"Failed: {failed[0].longrepr}"[:LONGEST_MESSAGE], "Failed")
        elif self.result != "failed":
            self.result = _result(item, next((r for r in reports if r.when == "call"), reports[0]))
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a subtest that fails; no other reports arrive here, and the test itself passes."""
        if report.failed:
            self.result = "failed"

    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> pytest.TestReport | None:
        """Record the exception, and report a failure without its traceback.

        Formatting a traceback takes longer than many tests, and nobody reads it. pytest's hooks
        for `unittest` and for expected failures run before and around this one.
        """
        error = call.excinfo.value if call.excinfo else None
        if error is None or isinstance(error, pytest.skip.Exception):
            return None
        raised = describe(error)
        if not self.raised.type:
            self.raised = raised
        if isinstance(error, BaseExceptionGroup):  # newer versions of pytest skip groups of skips
            return None
        place = ReprFileLocation(item.location[0], item.location[1] or 0, raised.text)
        traceback = ExceptionChainRepr([(ReprTraceback([], None, "value"), place, None)])
        assert call.when != "collect"
        keywords: dict[str, Literal[1]] = dict.fromkeys(item.keywords, 1)
        return pytest.TestReport(
            item.nodeid, item.location, keywords, "failed", traceback, call.when
        )


def _result(item: pytest.Item, report: pytest.TestReport) -> TestResult:
    """Return the result of a test that does not fail; `report` is of its call, or its setup."""
    if not hasattr(report, "wasxfail"):
        return "passed" if report.passed else "skipped"
    if report.passed:
        return "xpassed"
    return "passed" if must_fail(item) else "xfailed"


def must_fail(item: pytest.Item) -> bool:
    """Whether a test that was run is expected to fail, so strictly that it fails if it passes."""
    mark = item.stash.get(xfailed_key, None)
    if mark is not None and mark.strict and mark.run:
        return True
    # pytest takes the mark of `unittest` as strict.
    marked = (getattr(item, "obj", None), getattr(item, "cls", None))
    return any(getattr(one, "__unittest_expecting_failure__", False) for one in marked)


def describe(error: BaseException) -> Raised:
    """Return an exception's type, the first line of its message, and what it did not find."""
    kind, name = type(error).__name__[:LONGEST_MESSAGE], ""
    if isinstance(error, FixtureLookupError) and error.argname:
        name = error.argname[:LONGEST_MESSAGE]
        return Raised(f"fixture '{name}' not found"[:LONGEST_MESSAGE], kind, name)
    if isinstance(error, ModuleNotFoundError) and isinstance(error.name, str):
        name = error.name[:LONGEST_MESSAGE]
    lines = message_of(error).strip().split("\n")
    return Raised(f"{kind}: {lines[0]}".removesuffix(": ")[:LONGEST_MESSAGE], kind, name)


@dataclass
class TestCalls:
    """What a test has called, with its fixtures."""

    called: Collection[CodeType] | None = None
    """None until the test has ended, and if the recording is incomplete."""


class Recording:
    """A plugin that records what tests and their fixtures call."""

    def __init__(self) -> None:
        self.fixtures: dict[Any, dict[int, CodeType]] = {}
        """What each fixture calls while it is set up: every test that uses it reaches that too."""

    @contextmanager
    def of(self, item: pytest.Item) -> Iterator[TestCalls]:
        """Record what is called in this context, in which the test is run."""
        record, called = TestCalls(), dict[int, CodeType]()
        CALLS.start()
        with CALLS.recorded(called):
            yield record
        complete = CALLS.stop()
        for fixture in _fixtures(item):
            called |= self.fixtures.get(fixture, {})
        record.called = called.values() if complete else None

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, None, None]:
        """Record what a fixture calls."""
        with CALLS.recorded(self.fixtures.setdefault(fixturedef, {})):
            yield


def _fixtures(item: pytest.Item) -> Iterator[Any]:
    """Yield the definitions of all fixtures that a test uses."""
    info = getattr(item, "_fixtureinfo", None)
    for definitions in info.name2fixturedefs.values() if info else ():
        yield from definitions


def fix_hypothesis() -> None:
    """Let Hypothesis draw the same examples in every run, as soon as it is imported."""
    if "hypothesis" in sys.modules:
        _load_profile()
    else:
        sys.meta_path.insert(0, _ProfileLoader())


def _load_profile() -> None:
    from hypothesis import settings  # importing it takes longer than many suites

    settings.register_profile(
        "breaklab", settings.default, derandomize=True, database=None, deadline=None
    )
    settings.load_profile("breaklab")


def warm_hypothesis() -> None:
    """Let Hypothesis do what it does for the first test of a process now, before this one forks.

    It imports modules, collects the constants in the source of the engine and the suite, and runs
    the garbage collector.
    """
    if "hypothesis" not in sys.modules:
        return
    from hypothesis import HealthCheck, given, settings, strategies

    values = strategies.floats() | strategies.integers() | strategies.text()

    @settings(
        max_examples=30,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategies.lists(values))
    def accept(_drawn: object) -> None:
        """Pass."""

    with suppress(Exception):  # a suite may have changed Hypothesis
        accept()


class _ProfileLoader(MetaPathFinder, Loader):
    """Waits for the import of Hypothesis, and then loads the profile."""

    def find_spec(
        self, name: str, _path: object = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "hypothesis":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            self.loader, spec.loader = spec.loader, self
        return spec

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__loader__ = module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        _load_profile()


def stop_at_the_first_example(item: pytest.Item) -> None:
    """Let Hypothesis report the first example that fails, without looking for a simpler one."""
    function = getattr(item, "obj", None)
    function = getattr(function, "__func__", function)
    chosen = getattr(function, _SETTINGS, None)
    if chosen is not None:
        phases = [phase for phase in chosen.phases if phase.name not in ("shrink", "explain")]
        setattr(function, _SETTINGS, type(chosen)(chosen, phases=phases))


_SETTINGS = "_hypothesis_internal_use_settings"
"""The attribute of a test with its settings, which the pytest plugin of Hypothesis uses, too."""


def comparison_of(comparer: Comparer, failing: Iterable[int]) -> CallComparison | None:
    """Run tests whose calls are compared, and return what these show.

    None if a test fails before a number is wrong: it passed before, so the comparison disturbs it.
    """
    for _ in failing:
        if comparer.result.wrong_test is None:
            return None
    return comparer.result


def discard_output() -> None:
    """Discard what this process prints, which could be anything, of any length."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)


def be_silent(config: pytest.Config) -> None:
    """In a fork: discard everything that is printed, restart pytest's capture, leave xdist."""
    for plugin in config.pluginmanager.get_plugins():
        if hasattr(plugin, "sendevent"):  # a worker of xdist, which would send events in our name
            config.pluginmanager.unregister(plugin)
    config.option.tbstyle = "value"  # nobody reads it, and this is the fastest
    config.option.usepdb = False
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.stop_global_capturing()
    discard_output()
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  until it ends
    sys.stderr = sys.stdout
    if capture is not None:
        capture.start_global_capturing()


# ----- A collected suite -----


class CollectedSuite:
    """The tests of a suite, and the functions of the engine.

    Parameters
    ----------
    items : sequence of pytest.Item
        At least one.
    code : Code
        The engine.
    called : collection of CodeType, optional
        What has been called so far; None if that is not known.
    """

    def __init__(
        self, items: Sequence[pytest.Item], code: Code, called: Collection[CodeType] | None
    ) -> None:
        self.items, self.code, self.outcomes = items, code, Outcomes()
        self.functions = code.functions(called)
        items[0].config.pluginmanager.register(self.outcomes)

    def warm(self) -> None:
        """Do what every fork would do for its first test."""
        locate(self.items)
        warm_hypothesis()
        gc.freeze()  # otherwise a collection in a fork would copy every page

    def swap(
        self, pairs: Sequence[Replacement], codes: FileCodes, texts: Mapping[str, str]
    ) -> None:
        """In a fork: turn the engine into the one with these files; `texts` may lack some.

        `pairs` are those that `Functions.plan` returns. Modules that have not been imported yet
        will be imported from these files, too.
        """
        find_in_memory(self.code.root, {**self.code.sources, **texts}, codes)
        self.functions.swap(pairs)

    def run(
        self,
        order: Sequence[int],
        *,
        stop: bool,
        around: Callable[[int], AbstractContextManager[object]] = nullcontext,
        until: Callable[[], bool] = bool,
    ) -> Iterator[int]:
        """In a fork: run the tests with these numbers; see `run_in_order`."""
        return run_in_order(self.outcomes, self.items, order, stop=stop, around=around, until=until)
