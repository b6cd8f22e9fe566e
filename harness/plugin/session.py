"""One session of `pytest --breaks`: the suite as usual, then every break."""

from __future__ import annotations

import os
import sys
import sysconfig
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

import msgspec
import pytest

from harness.core.errors import BreaklabError, UsageError
from harness.engines.engine import Engine, find_engine
from harness.experiment.exploration import explore
from harness.grade.suite import BreakResult, Fate, SuiteReport
from harness.pages.catalogue import Catalogue, open_catalogue
from harness.pages.page import Page
from harness.plugin.calls import CALLS
from harness.plugin.mutants import Code, Mutant, mutants, patched_texts, select
from harness.plugin.reloading import run_reloaded, same_options
from harness.plugin.runners import Outcome, Reach, Request, Runner, run_all
from harness.plugin.sharing import REPORT, Meeting, group_of, merged
from harness.runs.cache import Cache, open_cache

MARKER = "kills"


def register(config: pytest.Config) -> None:
    """Register what a run with `--breaks` needs. Raises pytest.UsageError for a mistake."""
    if config.getoption("tx", None):  # the main process of xdist runs no test
        CALLS.stop()
        config.pluginmanager.register(Meeting(), "breaklab-meeting")
    try:
        session = BreaksSession(config)
    except BreaklabError as error:
        raise pytest.UsageError(f"{error.problem}\nremedy: {error.remedy}") from None
    config.pluginmanager.register(session, "breaklab-session")


@dataclass(frozen=True)
class _Observed:
    """What one process observed while its tests ran without a break."""

    reason: str
    """Why the suite cannot be run on breaks; empty if it can."""
    reach: Mapping[str, Reach]
    """The tests that pass, by id."""
    libraries: Sequence[str]


class BreaksSession:
    """The plugin while it runs: what the tests call, and what they find on each break."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.catalogue, self.cache = config, open_catalogue(), open_cache()
        self.pages = self._selected(config)
        self.engine = _engine(config.getoption("breaks_engine"), self.catalogue, self.cache)
        self.code = Code(self.engine)
        self.group = group_of(config)
        self.group.begin()
        self.runners: list[Runner] = []
        self.modules: frozenset[str] = frozenset()
        """The modules that are loaded when the runners are forked."""
        self.items: Sequence[pytest.Item] = ()
        self.collected: dict[int, CodeType] = {}
        """What has been called when the collection ends."""
        self.calls: dict[str, dict[int, CodeType] | None] = {}
        """What each test calls, by its id; None if it is not known."""
        self.fixtures: dict[Any, dict[int, CodeType]] = {}
        """What each fixture calls while it is set up."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.passed: set[str] = set()
        self.report: SuiteReport | None = None
        fix_hypothesis()

    def _selected(self, config: pytest.Config) -> list[Page]:
        """Return the selected breaks. A file name in its place is a file to collect."""
        selection = config.getoption("breaks")
        path = Path(config.invocation_params.dir) / selection.partition("::")[0]
        if path.exists() and selection not in self.catalogue.files:
            given = config.args_source == pytest.Config.ArgsSource.ARGS
            config.args = [*(config.args if given else ()), selection]
            config.option.breaks = selection = "all"
        return select(self.catalogue, selection)

    # ----- The suite without a break -----

    @pytest.hookimpl(hookwrapper=True)
    def pytest_collection(self) -> Generator[None, None, None]:
        """Note what has been called when the collection ends."""
        yield
        self.collected = {id(code): code for code in CALLS.take()}
        CALLS.stop()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, None]:
        """Fork the runners, run the tests, then the breaks."""
        self.items = session.items
        if session.items and not session.config.option.collectonly and not session.testsfailed:
            self._check_engine()
            self.modules = frozenset(sys.modules)
            called = list(self.collected.values())
            number = 1 if self.group.workers > 1 else _processors()
            self.runners = [Runner(self.items, self.code, called) for _ in range(number)]
        outcome = yield
        try:
            if self.runners and outcome.excinfo is None:
                self.report = self._evaluate(session)
        finally:
            for runner in self.runners:
                runner.end()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, None, None]:
        """Record what a test calls, with its fixtures."""
        if not self.runners:  # in the fork of a runner
            yield
            return
        called: dict[int, CodeType] = {}
        CALLS.start()
        with CALLS.recorded(called):
            yield
        complete = CALLS.stop()
        for fixtures in _fixtures(item):
            called |= self.fixtures.get(fixtures, {})
        self.calls[item.nodeid] = called if complete else None

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, None, None]:
        """Record what a fixture calls: every test that uses it reaches that too."""
        if not self.runners:
            yield
            return
        with CALLS.recorded(self.fixtures.setdefault(fixturedef, {})):
            yield

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note which tests pass, and how long they take."""
        self.seconds[report.nodeid] += report.duration
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            self.passed.add(report.nodeid)
        elif not report.passed:
            self.passed.discard(report.nodeid)

    # ----- The breaks -----

    def _check_engine(self) -> None:
        """Raise UsageError if the tests have imported the engine from other files."""
        name = self.engine.dialect.module.partition(".")[0]
        module = sys.modules.get(name)
        path = getattr(module, "__file__", None)
        if path and str(Path(path)) not in self.code.paths:
            raise pytest.UsageError(
                f"the tests import `{name}` from {path}, but the engine under test is in "
                f"{self.engine.root}: name it with --breaks-engine"
            )

    def _evaluate(self, session: pytest.Session) -> SuiteReport:
        start = time.perf_counter()
        reach = {name: self._reach(name) for name in self.passed}
        own = _Observed(_reason(session), reach, _libraries(self.modules))
        observed: list[_Observed] = self.group.exchange(own)
        tests = {name: reach for one in observed for name, reach in one.reach.items()}
        reason = next((one.reason for one in observed if one.reason), "")
        reason = reason or ("" if tests else "no test passed")
        results: list[BreakResult] = []
        claims: dict[str, list[str]] = {}
        if not reason:
            self.passed = set(tests)
            collected = frozenset(self.code.numbers(self.collected.values()))
            by_index = {i: tests[t.nodeid] for i, t in enumerate(self.items) if t.nodeid in tests}
            libraries = list(dict.fromkeys(name for one in observed for name in one.libraries))
            for runner in self.runners:
                runner.start(by_index, collected, libraries)
            results = self._results(mutants(self.pages, self.engine, self.cache))
            claims = self._false_claims() if self.group.claim("claims") else {}
        return SuiteReport(
            schema=1,
            suite=[str(argument) for argument in self.config.args],
            engine=self.engine.name,
            gradable=not reason,
            reason=reason,
            tests=len(tests),
            breaks=results,
            claims=claims,
            seconds=round(time.perf_counter() - start, 3),
        )

    def _reach(self, nodeid: str) -> Reach:
        called = self.calls.get(nodeid)
        known = None if called is None else frozenset(self.code.numbers(called.values()))
        return Reach(known, self.seconds[nodeid])

    def _results(self, chosen: Sequence[Mutant]) -> list[BreakResult]:
        """Return what became of each break, in order; those that cannot be swapped come last."""
        kills: Counter[int] = Counter()
        results: dict[str, BreakResult] = {}
        again: list[Mutant] = []
        stop = not self.config.getoption("breaks_all")

        def requests() -> Iterator[tuple[Mutant, Request]]:
            for mutant in chosen:
                if mutant.files.codes and self.group.claim(mutant.page.id):
                    first = [index for index, _ in kills.most_common(20)]
                    yield mutant, Request(mutant, first, stop=stop)

        for mutant in chosen:
            if not mutant.files.codes and self.group.claim(mutant.page.id):
                results[mutant.page.id] = _result(mutant, Outcome(), "does-not-apply", self.items)
        for mutant, outcome in run_all(self.runners, requests()):
            kills.update(outcome.failed)
            if outcome.reload:
                again.append(mutant)
                continue
            results[mutant.page.id] = _result(mutant, outcome, _fate(outcome), self.items)
            self._show_progress(len(results), len(chosen))
        for mutant in again:
            results[mutant.page.id] = self._reloaded(mutant)
            self._show_progress(len(results), len(chosen))
        return [results[page] for mutant in chosen if (page := mutant.page.id) in results]

    def _reloaded(self, mutant: Mutant, only: Sequence[str] | None = None) -> BreakResult:
        """Run the tests that pass in a fresh process that loads the broken engine."""
        start = time.perf_counter()
        names = [item.nodeid for item in self.items if item.nodeid in self.passed]
        arguments = [*same_options(self.config), *(names if only is None else only)]
        limit = 60 + 20 * sum(self.seconds.values())
        root, sources = patched_texts(self.engine, mutant.files.texts)
        folder = Path(self.config.rootpath)
        failed, problem = run_reloaded(root, sources, arguments, folder, limit)
        fate: Fate = "killed" if failed or problem else "survived"
        return BreakResult(
            break_=mutant.page.id,
            family=mutant.page.front.family,
            level=mutant.page.front.level,
            fate=fate,
            by=failed or ([problem] if problem else []),
            reached_by=[],
            path="reloaded",
            seconds=round(time.perf_counter() - start, 3),
            file=mutant.files.file,
            line=mutant.files.line,
        )

    def _false_claims(self) -> dict[str, list[str]]:
        """Return the breaks that a test claims to kill, and does not kill alone."""
        claimed = [
            (index, name)
            for index, item in enumerate(self.items)
            for marker in item.iter_markers(MARKER)
            for name in marker.args
        ]
        false: dict[str, list[str]] = {}
        for index, name in claimed:
            if not self._kills(index, name):
                false.setdefault(self.items[index].nodeid, []).append(name)
        return false

    def _kills(self, index: int, name: str) -> bool:
        try:
            page = self.catalogue.page(name, "break")
        except UsageError as error:
            raise pytest.UsageError(f"@pytest.mark.kills: {error.problem}") from None
        (mutant,) = mutants([page], self.engine, self.cache)
        request = Request(mutant, (), frozenset({index}))
        ((_, outcome),) = run_all(self.runners[:1], iter([(mutant, request)]))
        if outcome.reload:
            return self._reloaded(mutant, [self.items[index].nodeid]).fate == "killed"
        return bool(outcome.failed)

    # ----- What is shown -----

    def _show_progress(self, done: int, total: int) -> None:
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None and reporter.isatty:
            end = "\n" if done == total else ""
            reporter.rewrite(f"breaks: {done} of {total}{end}", erase=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send the report to the main process; there, fail for a false claim or a low score."""
        output = getattr(self.config, "workeroutput", None)
        if output is not None and self.report is not None:
            output[REPORT] = msgspec.json.encode(self.report)
            return
        meeting = self.config.pluginmanager.getplugin("breaklab-meeting")
        if meeting is not None and meeting.reports:
            self.report = merged(meeting.reports, [page.id for page in self.pages])
        least, report = self.config.getoption("breaks_min_score"), self.report
        if report is None or session.exitstatus != pytest.ExitCode.OK:
            return
        low = least is not None and (report.score is None or report.score < least)
        if report.claims or low or not report.gradable:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the score, the survivors and the next command; write the files."""
        if self.report is None:
            return
        from harness.report.suite import lines, write_json, write_junit

        terminalreporter.section("breaks")
        for line in lines(self.report, self.config.getoption("verbose")):
            terminalreporter.write_line(line)
        for option, write in (
            ("breaks_json", write_json),
            ("breaks_junit", write_junit),
            ("breaks_sarif", self._write_sarif),
        ):
            if file := self.config.getoption(option):
                write(self.report, Path(file))

    def _write_sarif(self, report: SuiteReport, file: Path) -> None:
        from harness.report.suite import write_sarif

        titles = {page.id: page.title for page in self.pages}
        write_sarif(report, file, titles, self.engine.root)


def _engine(name: str | None, catalogue: Catalogue, cache: Cache) -> Engine:
    if name is None:
        return find_engine()
    return explore(name, cache, catalogue.conventions).engine


def _reason(session: pytest.Session) -> str:
    """Return why the suite cannot be run on breaks; empty if it can."""
    if session.testsfailed:
        return f"{session.testsfailed} tests fail without a break"
    if session.shouldstop or session.shouldfail:
        return "the run was stopped"
    return ""


def _libraries(before: Collection[str]) -> list[str]:
    """Return the installed modules that have been imported since, in the order of their imports."""
    paths = sysconfig.get_paths()
    folders = tuple(paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))
    new = [(name, module) for name, module in list(sys.modules.items()) if name not in before]
    return [name for name, module in new if (_file_of(module) or "").startswith(folders)]


def _file_of(module: object) -> str | None:
    return getattr(module, "__file__", None)


def _fate(outcome: Outcome) -> Fate:
    if outcome.failed or outcome.problem:
        return "killed"
    return "survived" if outcome.reached else "not-reached"


def _result(
    mutant: Mutant, outcome: Outcome, fate: Fate, items: Sequence[pytest.Item]
) -> BreakResult:
    front, files = mutant.page.front, mutant.files
    by = [items[index].nodeid for index in outcome.failed]
    return BreakResult(
        break_=mutant.page.id,
        family=front.family,
        level=front.level,
        fate=fate,
        by=by or ([outcome.problem] if outcome.problem else []),
        reached_by=[items[index].nodeid for index in outcome.reached],
        path="swapped" if outcome.reached else None,
        seconds=round(outcome.seconds, 4),
        file=files.file,
        line=files.line,
    )


def _fixtures(item: pytest.Item) -> Iterator[Any]:
    """Yield the definitions of all fixtures that a test uses."""
    info = getattr(item, "_fixtureinfo", None)
    for definitions in info.name2fixturedefs.values() if info else ():
        yield from definitions


def fix_hypothesis() -> None:
    """Let Hypothesis draw the same examples in every run."""
    with suppress(ImportError):
        from hypothesis import settings

        settings.register_profile(
            "breaklab", settings.default, derandomize=True, database=None, deadline=None
        )
        settings.load_profile("breaklab")


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
