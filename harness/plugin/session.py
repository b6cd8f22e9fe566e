"""One session of `pytest --breaks`: the suite as usual, then every break."""

from __future__ import annotations

import os
import sys
import sysconfig
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

import msgspec
import pytest

from harness.core.errors import BreaklabError, EnvironmentProblem, UsageError
from harness.engines.engine import Engine, find_engine
from harness.grade.calls import CALLS
from harness.grade.code import Code
from harness.grade.mutants import Mutant, mutants, select
from harness.grade.running import Recording, fix_hypothesis
from harness.grade.suite import BreakResult, Fate, SuiteReport
from harness.pages.catalogue import Catalogue, open_catalogue
from harness.pages.page import Page
from harness.plugin.reloading import RunFailed, run_reloaded, same_options
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
        self.code = Code(self.engine.root, self.engine.sources)
        self.group = group_of(config)
        self.group.begin()
        self.runners: list[Runner] = []
        self.modules: frozenset[str] = frozenset()
        """The modules that are loaded when the runners are forked."""
        self.items: Sequence[pytest.Item] = ()
        self.collected: dict[int, CodeType] = {}
        """What has been called when the collection ends."""
        self.calls: dict[str, Collection[CodeType] | None] = {}
        """What each test calls, by its id; None if it is not known."""
        self.recording = Recording()
        config.pluginmanager.register(self.recording)
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.passed: set[str] = set()
        self.report: SuiteReport | None = None
        self.reloads: str | None = None
        """Why a fresh process cannot run the tests without a break; None if it was not tried."""
        self.unwritten: list[str] = []
        """The problems of result files that could not be written."""
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
        with self.recording.of(item) as record:
            yield
        self.calls[item.nodeid] = record.called

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
        known = None if called is None else frozenset(self.code.numbers(called))
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
        try:
            failed, problem = self._run_reloaded(mutant.sources_in(self.engine), only)
        except RunFailed:
            self._check_reloading()
            failed, problem = [], "the tests cannot be collected"
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

    def _run_reloaded(
        self, sources: Mapping[str, str], only: Sequence[str] | None = None
    ) -> tuple[list[str], str]:
        names = [item.nodeid for item in self.items if item.nodeid in self.passed]
        arguments = [*same_options(self.config), *(names if only is None else only)]
        limit = 60 + 20 * sum(self.seconds.values())
        return run_reloaded(self.engine.root, sources, arguments, Path(self.config.rootpath), limit)

    def _check_reloading(self) -> None:
        """Raise UsageError if a fresh process cannot run the tests without a break either."""
        if self.reloads is None:
            try:
                self._run_reloaded(self.engine.sources)
                self.reloads = ""
            except RunFailed as error:
                self.reloads = str(error)
        if self.reloads:
            raise pytest.UsageError(f"the tests do not run in a fresh process: {self.reloads}")

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
        """Send the report to the main process; there, write the files and set the status."""
        output = getattr(self.config, "workeroutput", None)
        if output is not None and self.report is not None:
            output[REPORT] = msgspec.json.encode(self.report)
            return
        meeting = self.config.pluginmanager.getplugin("breaklab-meeting")
        if meeting is not None and meeting.reports:
            self.report = merged(meeting.reports, [page.id for page in self.pages])
        if self.report is None:
            return
        self._write_files(self.report)
        if session.exitstatus == pytest.ExitCode.OK and not self._succeeds(self.report):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _write_files(self, report: SuiteReport) -> None:
        from harness.report.suite import write_json, write_junit

        for option, write in (
            ("breaks_json", write_json),
            ("breaks_junit", write_junit),
            ("breaks_sarif", self._write_sarif),
        ):
            if file := self.config.getoption(option):
                try:
                    write(report, Path(file))
                except EnvironmentProblem as error:  # pytest would show a traceback
                    self.unwritten.append(str(error))

    def _succeeds(self, report: SuiteReport) -> bool:
        least = self.config.getoption("breaks_min_score")
        low = least is not None and (report.score is None or report.score < least)
        return report.gradable and not (report.claims or low or self.unwritten)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the score, the survivors, the next command, and which files were not written."""
        if self.report is None:
            return
        from harness.report.suite import lines

        terminalreporter.section("breaks")
        for line in lines(self.report, self.config.getoption("verbose")):
            terminalreporter.write_line(line)
        for problem in self.unwritten:
            terminalreporter.write_line(f"ERROR: {problem}", red=True)

    def _write_sarif(self, report: SuiteReport, file: Path) -> None:
        from harness.report.suite import write_sarif

        titles = {page.id: page.title for page in self.pages}
        write_sarif(report, file, titles, self.engine.root)


def _engine(name: str | None, catalogue: Catalogue, cache: Cache) -> Engine:
    if name is None:
        return find_engine()
    from harness.experiment.exploration import explore  # slow to import

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


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
