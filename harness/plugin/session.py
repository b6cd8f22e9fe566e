"""One session of `pytest --breaks`: the suite as usual, then every break."""

from __future__ import annotations

import shutil
import sys
import sysconfig
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

from harness.core.errors import BreaklabError, EnvironmentProblem, UsageError
from harness.grade.feedback import disclose
from harness.grade.mutants import Mutant, PatchedFiles
from harness.grade.reach import CALLS, Code
from harness.grade.running import Recording, fix_hypothesis, must_fail
from harness.grade.suite import BreakResult, Fate, SuiteReport
from harness.pages.catalogue import open_catalogue
from harness.plugin.baseline import open_baseline
from harness.plugin.reloads import Reloads, Zygote, imports_engine
from harness.plugin.runners import (
    BreakOutcome,
    BreakRunner,
    Reach,
    Request,
    TimeLimit,
    run_all,
    uses_cuda,
)
from harness.plugin.sharing import Meeting, group_of, merged
from harness.plugin.subject import find_subject
from harness.runs.cache import open_cache
from harness.sandbox.parallel import available_cores, end_all

if TYPE_CHECKING:
    from harness.report.grading import Format
    from harness.runs.comparison import CallComparison

MARKER = "kills"

FORMATS: tuple[Format, ...] = ("json", "junit", "sarif")
"""The formats of the files that the options name."""


def register(config: pytest.Config) -> BreaksSession:
    """Register what a run with `--breaks` needs. Raises pytest.UsageError for a mistake."""
    if config.getoption("tx", None):  # the main process of xdist
        config.pluginmanager.register(Meeting(), "breaklab-meeting")
    try:
        _require_files(config)
        session = BreaksSession(config)
    except BreaklabError as error:
        raise pytest.UsageError(str(error)) from None
    config.pluginmanager.register(session, "breaklab-session")
    return session


@dataclass(frozen=True)
class _CleanResults:
    """What one process observed while its tests ran without a break."""

    reason: str
    """Why the suite cannot be run on breaks; empty if it can."""
    reach: Mapping[str, Reach]
    """The tests that pass, by id."""
    taken: TimeLimit
    """How long all tests took."""
    libraries: Sequence[str]


class BreaksSession:
    """The plugin while it runs: what the tests call, and what they find on each break."""

    def __init__(self, config: pytest.Config) -> None:
        folders = map(Path, config.getoption("breaks_pages"))
        self.config = config
        self.subject = find_subject(config, open_catalogue(folders), open_cache())
        self.engine = self.subject.engine
        self.code = Code(self.engine.root, self.engine.sources)
        baseline, update = (config.getoption(f"breaks_baseline{x}") for x in ("", "_update"))
        self.baseline = open_baseline(baseline, update=update)
        self.group = group_of(config)
        self.group.begin()
        self.runners: list[BreakRunner] = []
        self.modules: frozenset[str] = frozenset()
        """The modules that are loaded when the collection begins."""
        self.items: Sequence[pytest.Item] = ()
        self.is_recorded = True
        """Whether it is known what has been called so far."""
        self.collected: Collection[CodeType] | None = None
        """What has been called when the collection ends; None if that is not known."""
        self.calls: dict[str, Collection[CodeType] | None] = {}
        """What each test calls, by its id; None if it is not known."""
        self.recording = Recording()
        config.pluginmanager.register(self.recording, "breaklab-recording")
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.cpu_seconds = 0.0
        """The processor time of this process, while it ran all tests."""
        self.passed: set[str] = set()
        self.flaky: Sequence[str] = ()
        """The tests that pass, and then fail in a fork on the same code; rules only."""
        self.results: dict[str, BreakResult] = {}
        """What became of each break so far, by id."""
        self.report: SuiteReport | None = None
        self.reloads = Reloads(config, self.engine)
        self.unwritten: list[str] = []
        """The problems of result files that could not be written."""
        fix_hypothesis()

    # ----- The suite without a break -----

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> Generator[None, None, None]:
        """Fork the zygote; after the collection, note what has been called."""
        if self._needs_zygote(session):
            self.reloads.zygote = Zygote(session, self.code)
        self.modules = frozenset(sys.modules)
        yield
        self.is_recorded = CALLS.stop() and self.is_recorded
        called = list(CALLS.take())
        self.collected = called if self.is_recorded else None

    @property
    def runs_tests(self) -> bool:
        """Whether this process runs tests; the main process of xdist does not."""
        return not self.config.pluginmanager.hasplugin("breaklab-meeting")

    def _needs_zygote(self, session: pytest.Session) -> bool:
        """Whether this process will run breaks, and has not imported the engine yet."""
        runs = self.runs_tests and not session.config.option.collectonly
        return runs and not imports_engine(self.code) and not uses_cuda()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Fork the runners, run the tests, then the breaks."""
        self.items = session.items
        try:
            if session.items and not session.config.option.collectonly and not session.testsfailed:
                self._check_engine()
                if uses_cuda():
                    warnings.warn(pytest.PytestWarning(_CUDA), stacklevel=1)
                cores = 1 if self.group.workers > 1 else available_cores()
                for _ in range(min(cores, len(self.subject.titles))):
                    self.runners.append(BreakRunner(self.items, self.code, self.collected))
            outcome = yield
            if self.runners:
                self._evaluate(session)
            return outcome
        finally:
            end_all(self.runners)
            self.reloads.end()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, None, None]:
        """Record what a test calls, with its fixtures."""
        if not self.runners:  # in the fork of a runner
            yield
            return
        used = time.process_time()
        with self.recording.of(item) as record:
            yield
        self.cpu_seconds += time.process_time() - used
        self.calls[item.nodeid] = record.called
        if must_fail(item):  # it can fail by passing, and so it can kill
            self.passed.add(item.nodeid)

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
            what = "engine under test is" if self.subject.has_breaks else "rules are"
            raise pytest.UsageError(
                f"the tests import `{name}` from {path}, but the {what} in "
                f"{self.engine.root}: name it with {self.subject.option}"
            )

    def _evaluate(self, session: pytest.Session) -> None:
        """Run the breaks, and set the report, also if Ctrl-C ends that early."""
        start = time.perf_counter()
        reach = {name: self._reach(name) for name in self.passed}
        taken = TimeLimit(sum(self.seconds.values()), self.cpu_seconds)
        own = _CleanResults(_reason(session), reach, taken, _libraries(self.modules, self.code))
        observed: list[_CleanResults] = self.group.exchange(own)
        tests = {name: reach for one in observed for name, reach in one.reach.items()}
        reason = next((one.reason for one in observed if one.reason), "")
        reason = reason or ("" if tests else "no test passed")
        claims: dict[str, list[str]] = {}
        interrupt: KeyboardInterrupt | None = None
        try:
            if not reason:
                self._prepare(observed, tests)
                chosen = self.subject.load()
                if self.subject.rules:
                    reason = self._repeat(chosen[0])
            if not reason:
                self._run(chosen)
                self._compare(chosen)
                claims = self._false_claims() if self.group.claim("claims") else {}
        except KeyboardInterrupt as error:
            interrupt = error
        self.report = SuiteReport(
            schema=1,
            suite=[str(argument) for argument in self.config.args],
            engine=self.engine.name,
            gradable=not reason,
            reason=reason,
            tests=len(tests),
            breaks=[self.results[name] for name in self.subject.titles if name in self.results],
            claims=claims,
            flaky=list(self.flaky),
            seconds=round(time.perf_counter() - start, 3),
        )
        if interrupt is not None:
            raise interrupt

    def _prepare(self, observed: Sequence[_CleanResults], tests: Mapping[str, Reach]) -> None:
        """Tell the processes that run breaks which tests pass, and what they reach."""
        self.passed = set(tests)
        by_index = {i: tests[t.nodeid] for i, t in enumerate(self.items) if t.nodeid in tests}
        libraries = list(dict.fromkeys(name for one in observed for name in one.libraries))
        taken = TimeLimit(
            sum(one.taken.seconds for one in observed),
            sum(one.taken.cpu_seconds for one in observed),
        )
        for runner in self.runners:
            runner.start(by_index, taken, libraries)
        self.reloads.start(self._passing, taken, libraries)

    def _repeat(self, mutant: Mutant) -> str:
        """Run the tests in a fork on unchanged code, and note those that fail there.

        `mutant` may be any, since its change is left out. Return why nothing can be concluded from
        tests in a fork; empty if something can.
        """
        clean = replace(mutant, files=PatchedFiles())
        request = Request(clean, (), stop=False, everything=True)
        ((_, outcome),) = run_all(self.runners[:1], iter([(None, request)]))
        if outcome.problem:
            return f"on unchanged code, the tests do not end in a fork of pytest: {outcome.problem}"
        self.flaky = [self.items[index].nodeid for index in outcome.failed]
        steady = self.passed - set(self.flaky)
        return "" if steady else "no test passes twice on the same code"

    @property
    def _steady(self) -> frozenset[int] | None:
        """The numbers of the tests that are not flaky; None if all tests are to be run."""
        if not self.flaky:
            return None
        names = [item.nodeid for item in self.items]
        return frozenset(i for i, name in enumerate(names) if name not in self.flaky)

    def _reach(self, nodeid: str) -> Reach:
        called = self.calls.get(nodeid)
        known = None if called is None else frozenset(self.code.numbers(called))
        return Reach(known, self.seconds[nodeid])

    def _run(self, chosen: Sequence[Mutant]) -> None:
        """Note what becomes of each break; those that cannot be swapped come last."""
        kills: Counter[int] = Counter()
        again: list[Mutant] = []
        stop, steady = not self.config.getoption("breaks_all"), self._steady
        passing = self._passing

        def requests() -> Iterator[tuple[Mutant, Request]]:
            for mutant in chosen:
                if mutant.files.codes and self.group.claim(mutant.id):
                    first = [index for index, _ in kills.most_common(20)]
                    yield mutant, Request(mutant, first, steady, stop=stop)

        for mutant in chosen:
            if not mutant.files.codes and self.group.claim(mutant.id):
                self.results[mutant.id] = mutant.result("does-not-apply")
        for mutant, outcome in run_all(self.runners, requests()):
            kills.update(outcome.failed)
            if outcome.reload:
                again.append(mutant)
                continue
            self.results[mutant.id] = self._result(mutant, outcome)
            self._show_progress(len(self.results), len(chosen))
        for mutant in again:
            outcome = replace(self.reloads.run(mutant.files, passing, stop=stop), reload=True)
            self.results[mutant.id] = self._result(mutant, outcome)
            self._show_progress(len(self.results), len(chosen))

    def _compare(self, chosen: Sequence[Mutant]) -> None:
        """Add the reason to each survivor that this process has run."""
        survivors = [
            mutant
            for mutant in chosen
            if (result := self.results.get(mutant.id)) and result.fate == "survived"
        ]
        if not survivors:
            return
        from harness.grade.reasons import reason_of, with_both_versions  # slow to import

        tests, passing, steady = [item.nodeid for item in self.items], self._passing, self._steady

        def requests() -> Iterator[tuple[Mutant, Request]]:
            for mutant in survivors:
                if (both := with_both_versions(mutant, self.engine)) is not None:
                    yield both, Request(both, (), steady, stop=False, compare=True)

        def explain(mutant: Mutant, comparison: CallComparison | None) -> None:
            reason = reason_of(comparison, tests, is_bug=mutant.change is None)
            result = self.results[mutant.id]
            self.results[mutant.id] = msgspec.structs.replace(result, reason=reason)

        for mutant in survivors:  # so that Ctrl-C leaves the reasons that have been found
            explain(mutant, None)
        for both, outcome in run_all(self.runners, requests()):
            found: BreakOutcome | None = outcome
            if outcome.reload:
                found = self.reloads.compare(both.files, passing)
            explain(both, found.comparison if found else None)

    @property
    def _passing(self) -> dict[str, int]:
        """The numbers of the tests that count, by id."""
        return {
            item.nodeid: index
            for index, item in enumerate(self.items)
            if item.nodeid in self.passed and item.nodeid not in self.flaky
        }

    def _result(self, mutant: Mutant, outcome: BreakOutcome) -> BreakResult:
        by = [self.items[index].nodeid for index in outcome.failed]
        return mutant.result(
            _fate(outcome),
            by=by or ([outcome.problem] if outcome.problem else []),
            reached_by=[self.items[index].nodeid for index in outcome.reached],
            path="reloaded" if outcome.reload else "swapped" if outcome.reached else None,
            seconds=outcome.seconds,
            timed_out=outcome.timed_out,
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
        """Whether a test by itself kills a break; for an operator, each mutant that it reaches."""
        try:
            claimed = self.subject.claimed(name)
        except UsageError as error:
            raise pytest.UsageError(f"@pytest.mark.kills: {error.problem}") from None
        only = frozenset({index})
        requests = iter([(mutant, Request(mutant, (), only)) for mutant in claimed])
        fates = []
        for mutant, outcome in run_all(self.runners[:1], requests):
            if outcome.reload:
                outcome = self.reloads.run(mutant.files, {self.items[index].nodeid: index})
                fates.append(bool(outcome.failed or outcome.problem))
            elif outcome.reached or mutant.change is None:
                fates.append(bool(outcome.failed))
        return all(fates)

    # ----- What is shown -----

    def _show_progress(self, done: int, total: int) -> None:
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None and reporter.isatty:
            end = "\n" if done == total else ""
            reporter.rewrite(f"{self.subject.noun}: {done} of {total}{end}", erase=True)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Publish a worker's report; in the main process, write the files and set the status.

        After Ctrl-C, the workers of xdist end before this is called last.
        """
        meeting = self.config.pluginmanager.getplugin("breaklab-meeting")
        if meeting is not None:
            self.report = merged(meeting.reports(), list(self.subject.titles))
        if self.report is None:
            return
        if self.group.folder is not None:
            self.group.publish(self.report)
            return
        if self.baseline is not None:
            complete = len(self.report.breaks) == len(self.subject.titles)
            self.report = self.baseline.apply(self.report, self.subject.scope, complete=complete)
        if session.exitstatus != pytest.ExitCode.INTERRUPTED:
            self._write_files(self.report)
            if session.exitstatus == pytest.ExitCode.OK and not self._succeeds(self.report):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _write_files(self, report: SuiteReport) -> None:
        from harness.core.files import write_file
        from harness.report.grading import render

        grade = disclose(report, titles=self.subject.titles, root=self.engine.root)
        for form in FORMATS:
            if file := self.config.getoption(f"breaks_{form}"):
                try:
                    write_file(Path(file), render(grade, form))
                except EnvironmentProblem as error:  # pytest would show a traceback
                    self.unwritten.append(str(error))

    def _succeeds(self, report: SuiteReport) -> bool:
        is_sound = not (report.claims or self._is_low(report) or self.unwritten)
        is_known = self.baseline is None or not list(self.baseline.problems)
        return report.gradable and is_sound and is_known

    def _is_low(self, report: SuiteReport) -> bool:
        least = self.config.getoption("breaks_min_score")
        return least is not None and (report.score is None or report.score < least)

    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int) -> None:
        """Print the score, the survivors, the next command, and why the run fails."""
        title = "breaks" if self.subject.has_breaks else "rules"
        if self.report is None:
            if terminalreporter.stats.get("error"):
                terminalreporter.section(title)
                what = "break" if self.subject.has_breaks else "mutant"
                line = f"No {what} was tried: the tests cannot be collected; see the error above."
                terminalreporter.write_line(line)
            return
        terminalreporter.section(title)
        width = shutil.get_terminal_size().columns if terminalreporter.isatty else sys.maxsize
        for line in self._summary(self.report, width):
            terminalreporter.write_line(line)
        for note in self.baseline.notes if self.baseline is not None else ():
            terminalreporter.write_line(note)
        for problem in self._problems(self.report, exitstatus):
            terminalreporter.write_line(f"ERROR: {problem}", red=True)

    def _summary(self, report: SuiteReport, width: int) -> Iterator[str]:
        from harness.report.grading import rules, text

        verbose = self.config.getoption("verbose")
        if verbose > 0:
            yield from text.kills_by_test(report, width, every=self.config.getoption("breaks_all"))
        breaks, mutants = _divided(report)
        if self.subject.has_breaks and (breaks.breaks or not report.gradable):
            yield from text.lines(disclose(breaks), verbose, width=width, option="-v")
        if not self.subject.has_breaks or mutants.breaks:
            yield from rules.lines(disclose(mutants), self.subject.rules or (), verbose, width)
        elif self.subject.rules == []:
            yield "No backward rule was found in the engine; docs/your-rules.md lists the forms"

    def _problems(self, report: SuiteReport, exitstatus: int) -> Iterator[str]:
        if report.gradable and exitstatus == pytest.ExitCode.INTERRUPTED:
            missing, all_ = len(self.subject.titles) - len(report.breaks), len(self.subject.titles)
            lost = f"{missing} of {all_} {self.subject.noun} were not run"
            yield f"interrupted: {lost if missing else 'the marks `kills` were not all checked'}"
        elif report.gradable and self._is_low(report):
            least = self.config.getoption("breaks_min_score")
            yield f"the score is below {least:g} % (--breaks-min-score)"
        yield from self.unwritten
        if self.baseline is not None:
            yield from self.baseline.problems


_CUDA = (
    "CUDA was initialised before the first test, and does not work in a fork of this process: the "
    "tests are imported again for each break or mutant, which is slow. Initialise CUDA in tests or "
    "fixtures instead."
)


def _require_files(config: pytest.Config) -> None:
    """Raise EnvironmentProblem if a results file clearly cannot be written."""
    from harness.report import require_writable

    for form in FORMATS:
        if file := config.getoption(f"breaks_{form}"):
            require_writable(Path(file))


def _reason(session: pytest.Session) -> str:
    """Return why the suite cannot be run on breaks; empty if it can."""
    if session.testsfailed:
        verb = "test fails" if session.testsfailed == 1 else "tests fail"
        return f"{session.testsfailed} {verb} without a break"
    if session.shouldstop or session.shouldfail:
        return "the run was stopped"
    return ""


def _libraries(before: Collection[str], code: Code) -> list[str]:
    """Return the installed modules that have been imported since, in the order of their imports.

    A module that pytest has rewritten is left out: it is to be rewritten there, too.
    """
    paths = sysconfig.get_paths()
    folders = tuple(paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))
    return [
        name
        for name, module in list(sys.modules.items())
        if name not in before
        and (file := getattr(module, "__file__", None) or "").startswith(folders)
        and file not in code.paths
        and not isinstance(getattr(module, "__loader__", None), AssertionRewritingHook)
    ]


def _divided(report: SuiteReport) -> tuple[SuiteReport, SuiteReport]:
    """Return a result as that on breaks and that on mutants of rules.

    What is said of the suite itself belongs to the first one, if there are breaks.
    """
    breaks = [one for one in report.breaks if one.change is None]
    mutants = [one for one in report.breaks if one.change is not None]
    of_suite: dict[str, Any] = {"flaky": [], "claims": {}} if breaks else {}
    return (
        msgspec.structs.replace(report, breaks=breaks),
        msgspec.structs.replace(report, breaks=mutants, **of_suite),
    )


def _fate(outcome: BreakOutcome) -> Fate:
    if outcome.failed or outcome.problem:
        return "killed"
    return "survived" if outcome.reached or outcome.reload else "not-reached"
