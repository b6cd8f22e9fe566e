"""Grading an untrusted suite: correct engines first, then every break and its twin.

The order matters: the tests must pass on the engine without a break, three times, and
on every correct engine; only then are breaks tried. A test kills a break if it passes on the twin
and fails on the break under two rewrites, or four if it has not killed before. At the end, tests
that kill must pass on twins again, many times.
The parent never imports the suite: see `harness.grade.confined` for where it runs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

import msgspec

from harness.core.errors import UsageError
from harness.core.message import message, shortened, visible
from harness.grade.copying import ALLOWED, find_copies
from harness.grade.feedback import ENDED
from harness.grade.files import NotGradable, Said, read_submission
from harness.grade.mutants import Mutant
from harness.grade.plan import GradingPlan
from harness.grade.processes import EngineResults, Processes
from harness.grade.protocol import Ended, PackedCodes
from harness.grade.styles import Style, styles_of
from harness.grade.suite import (
    BreakResult,
    CopiedCode,
    CorrectEngine,
    Fate,
    SuiteReport,
    UncountedResult,
)
from harness.grade.survivors import Explaining
from harness.grade.trial import MOST_TRIES, TrialVerdict, TrialVersion, judge

BreakProgress = Callable[[int, int], None]
"""Called with the number of breaks that are done, and the number of all."""

TIMES = 3
"""How often the tests are run on the engine without a break."""

FIRST_ROUNDS = 4
"""The number of rewrites for a test that has killed nothing yet, so that few kills are luck."""

CONFIRMATIONS = 10
"""How often a test that kills must pass on twins again. A test that fails in a quarter of its runs
passes all of them in one case out of eighteen."""

_MOST_RECOGNISED, _FEW = 0.1, 3
"""A suite is not gradable if tests fail on a larger share of the twins and on more than a few."""

_LONGEST_REASON = 1500


def grade_suite(
    path: Path, plan: GradingPlan, progress: BreakProgress | None = None
) -> SuiteReport:
    """Grade a folder with files `test_*.py` or `*_test.py`, or a single file without its folder.

    The result says why a suite is not gradable. Raises UsageError if there is no such file or
    folder, and EnvironmentProblem if no process can be started.
    """
    start = time.perf_counter()
    require_suite(path)
    grading = _Grading(plan, progress or (lambda _done, _all: None), start)
    reason = stated = ""
    left_out: list[str] = []
    refused: dict[str, set[str]] = {}
    copied, styles = CopiedCode(), list[Style]()
    try:
        submitted = read_submission(path.resolve())
        if not plan.allow_conftest:
            submitted = submitted.without_conftest()
        left_out = submitted.left_out
        copied, styles = (
            find_copies(submitted.files, plan.engine.sources),
            styles_of(submitted.files),
        )
        if not plan.allow_copy and copied.share > ALLOWED:
            raise NotGradable(
                "{percent} % of its functions are copied from the engine, "
                "and copies are not allowed",
                percent=round(100 * copied.share),
            )
        with closing(Processes(path, submitted, plan)) as processes:
            refused = processes.refused
            grading.grade(processes)
    except NotGradable as error:
        grading.rejection, grading.results = error, []
    if grading.rejection:
        reason = shortened(visible(str(grading.rejection)), _LONGEST_REASON)
        stated = shortened(visible(grading.rejection.stated), _LONGEST_REASON)
    return SuiteReport(
        schema=1,
        suite=[str(path)],
        engine=plan.engine.name,
        gradable=not reason,
        reason=reason,
        tests=grading.tests,
        breaks=grading.results,
        claims={},
        seconds=round(time.perf_counter() - start, 3),
        correct=grading.correct,
        flaky=[grading.name(test) for test in sorted(grading.flaky)],
        excluded=[grading.name(test) for test in sorted(grading.excluded)],
        cost=grading.cost,
        uncounted=grading.uncounted,
        uncalled=grading.uncalled,
        stated=stated,
        shown=grading.shown,
        left_out=left_out,
        copied=copied,
        styles=styles,
        refused={visible(test): sorted(map(visible, ways)) for test, ways in refused.items()},
    )


def require_suite(path: Path) -> None:
    """Raise UsageError if there is nothing at a path."""
    if not path.exists():
        problem = message("no file or folder {path}", path=path)
        raise UsageError(problem, "name a file with tests, or a folder of them")


@dataclass
class _Grading:
    """A suite, while it is graded."""

    plan: GradingPlan
    progress: BreakProgress
    start: float
    """When the grading began, in seconds."""
    correct: list[CorrectEngine] = field(default_factory=list)
    shown: dict[str, str] = field(default_factory=dict)
    """The names of the tests as a student may read them, by their ids."""
    counted: dict[int, Ended] = field(default_factory=dict)
    """The tests that may kill a break, with what they did on the engine without one."""
    tests: int = 0
    """The number of tests that counted when the first break was tried."""
    flaky: set[int] = field(default_factory=set)
    excluded: set[int] = field(default_factory=set)
    """The tests that fail on a correct engine."""
    cost: float = 0.0
    """The share of the tests that are excluded, in percent."""
    uncounted: dict[str, UncountedResult] = field(default_factory=dict)
    uncalled: list[str] = field(default_factory=list)
    rejection: NotGradable | None = None
    """Why the suite as a whole is not gradable, if it is graded by the tests that remain."""
    results: list[BreakResult] = field(default_factory=list)
    kills: Counter[int] = field(default_factory=Counter)
    killers: dict[str, list[int]] = field(default_factory=dict)
    caught: Counter[int] = field(default_factory=Counter)
    """The number of twins on which a test fails."""
    twins: int = 0
    recognised: int = 0
    """The number of breaks whose twin was run, and of those where a test failed on it."""

    def name(self, test: int) -> str:
        """Return the id of a test."""
        return visible(self.processes.tests[test])

    def said(self, test: int) -> Said:
        """Return the id of a test, and its name as a student may read it."""
        return Said(self.name(test), self.shown[self.name(test)])

    def grade(self, processes: Processes) -> None:
        """Run the suite on everything. Raises NotGradable."""
        self.processes = processes
        # The order is secret, too, and differs from suite to suite.
        self.random = Random(self.plan.seed + b"".join(processes.submitted.files.values()))
        processes.collect()
        ids = list(map(visible, processes.tests))
        self.shown = dict(zip(ids, processes.words.names(processes.tests), strict=True))
        self._run_on_clean()
        self._run_on_variants()
        passing = self._passing()
        self.tests = len(passing)
        self.cost = _share(map(self.name, self.excluded), map(self.name, passing))
        self.uncalled = self._uncalled()
        self._run_on_breaks()
        self._note_uncounted()
        if self.plan.stages:
            explaining = Explaining(self.plan, processes, ids, self.counted, self.start)
            self.results = [explaining.explained(result) for result in self.results]

    def reaching(self, mutant: Mutant) -> list[int]:
        """Return the tests that count and call a function that the mutant changes."""
        changed = self.plan.changed_functions(mutant)
        return [
            test
            for test, ended in self.counted.items()
            if changed is None or ended.reached is None or changed.intersection(ended.reached)
        ]

    def _uncalled(self) -> list[str]:
        """Return the names of the public functions that no test calls; none if that is unknown.

        All functions of the engine are considered, whether or not they have a break.
        """
        called: set[int] = set()
        for ended in self.counted.values():
            if ended.reached is None:
                return []
            called.update(ended.reached)
        public = self.plan.code.public()
        return sorted({name for number, name in public.items() if number not in called})

    # ----- Correct engines -----

    def _run_on_clean(self) -> None:
        stopped: dict[int, str] = {}
        runs = [self._clean_run(stopped, record=number == 0) for number in range(TIMES)]
        ended = {test: one for test, one in runs[0].items() if test not in stopped}
        runs = [{test: run[test] for test in ended} for run in runs]
        self.processes.set_usual_times(list(map(EngineResults, runs)))
        results = {test: {run[test].result for run in runs} for test in ended}
        self.flaky = {test for test, seen in results.items() if len(seen) > 1}
        failed = [test for test, seen in results.items() if seen == {"failed"}]
        self.counted = {
            test: ended[test]
            for test, seen in results.items()
            if len(seen) == 1 and test not in failed
        }
        names = [*map(self.name, stopped), *map(self.name, failed)]
        messages = list(map(visible, stopped.values()))
        messages += [visible(ended[test].raised.text) for test in failed]
        name, passed = self.plan.engine.name, len(self._passing())
        self.correct.append(CorrectEngine(name, passed, names, messages=messages))
        self.excluded = {*stopped, *failed}
        if failed:
            first = failed[0]
            if self.processes.tests[first] in self.processes.refused:
                looks = "{test} looks at the engine's code, which a graded suite cannot see"
                self._reject(looks, first)
            else:
                how = self.processes.words.raised(ended[first].raised)
                self._reject("{test} fails on the correct engine: {how}", first, how=how)
        self._require_tests()

    def _clean_run(self, stopped: dict[int, str], *, record: bool) -> dict[int, Ended]:
        """Run all tests on the engine without a break; note those that end the process, and how."""
        ended: dict[int, Ended] = {}
        pending = [test for test in range(len(self.processes.tests)) if test not in stopped]
        while pending:
            observed = self.processes.observe({}, pending, record=record)
            ended.update(observed.ended)
            pending = [test for test in pending if test not in observed.ended]
            for test in pending[:1]:
                stopped[test] = observed.problem or "it did not end"
                how = Said(stopped[test], ENDED)
                sentence = "{test} does not end on {engine}: {how}"
                self._reject(sentence, test, engine=self.plan.engine.name, how=how)
            del pending[:1]
        return ended

    def _reject(self, template: str, test: int, **arguments: Said | str) -> None:
        """Note that a test fails on a correct engine; raise NotGradable if none may."""
        error = NotGradable(template, test=self.said(test), **arguments)
        if not self.plan.partial:
            raise error
        self.rejection = self.rejection or error

    def _passing(self) -> list[int]:
        """Return the tests that count and pass; others may be skipped, for example."""
        return [test for test, ended in self.counted.items() if ended.result == "passed"]

    def _require_tests(self) -> None:
        """Raise NotGradable if no test is left."""
        if self._passing():
            return
        if self.rejection:
            raise self.rejection
        if self.flaky:
            raise NotGradable("no test passes on the correct engine the same way three times")
        self._note_uncounted()
        raise NotGradable("no test passes on the correct engine")

    def _run_on_variants(self) -> None:
        variants = list(self.plan.variants)
        self.random.shuffle(variants)
        rejecting = []
        for variant in variants:
            failed = self._failed_twice(variant)
            note = variant.page.title if failed else ""
            passed = len([test for test in self._passing() if test not in failed])
            names = list(map(self.name, failed))
            self.correct.append(CorrectEngine(variant.page.id, passed, names, note))
            if failed:
                rejecting.append((failed[0], variant.page))
            self.excluded.update(failed)
        if rejecting:
            test, page = rejecting[0]
            more = len(rejecting) - 1
            others = f", and {more} more" if more else ""
            sentence = "{test} fails on a correct engine: {title} ({id}{others})"
            self._reject(sentence, test, title=page.title, id=page.id, others=others)
        for test in self.excluded:
            self.counted.pop(test, None)
        self._require_tests()

    def _failed_twice(self, variant: Mutant) -> list[int]:
        """Return the tests that fail on a correct engine; those that fail only once are flaky.

        A test that calls no changed function is not run: it would behave as before.
        """
        failed = self._failed(variant)
        if not failed:
            return []
        again = self._failed(variant)
        for test in failed ^ again:
            self._leave_out(test)
        return sorted(failed & again)

    def _failed(self, variant: Mutant) -> set[int]:
        """Return the tests that fail on a correct engine, or do not end there."""
        codes, tests, failed = self.plan.correct(variant), self.reaching(variant), set[int]()
        # If what ran during the collection has also changed, that may matter to any test.
        every, reload = list(self.counted), False
        while tests:
            observed = self.processes.observe(codes, tests, reload=reload, if_reloaded=every)
            if observed.path == "reloaded" and not reload:
                tests, reload = every, True
            missing = [test for test in tests if test not in observed.ended]
            failed |= {*observed.failed, *missing[:1]}
            tests = missing[1:]
        return failed

    def _leave_out(self, test: int) -> None:
        self.flaky.add(test)
        self.counted.pop(test, None)

    # ----- Breaks -----

    def _run_on_breaks(self) -> None:
        pending = list(self.plan.breaks)
        self.random.shuffle(pending)
        results: dict[str, BreakResult] = {}
        for done, mutant in enumerate(pending):
            self.progress(done, len(pending))
            results[mutant.page.id] = self._judge(mutant)
        confirmed: set[int] = set()
        while True:
            while doubtful := [m for m in pending if self._is_doubtful(m)]:
                for mutant in doubtful:
                    results[mutant.page.id] = self._judge(mutant)
            killers = {test for tests in self.killers.values() for test in tests} - confirmed
            if not killers:
                break
            swapped = [m for m in pending if results[m.page.id].path == "swapped"]
            self._confirm(sorted(killers), [m for m in swapped if self.killers[m.page.id]])
            confirmed |= killers
        self.progress(len(pending), len(pending))
        self.results = [results[mutant.page.id] for mutant in self.plan.breaks]

    def _confirm(self, killers: Sequence[int], killed: Sequence[Mutant]) -> None:
        """Run tests that kill on the twins of killed breaks; one that fails there is flaky.

        They have passed on twins before, so they do not recognise code. They are run together, and
        on twins, since a suite might recognise the engine without a break.
        """
        for _ in range(CONFIRMATIONS):
            codes: PackedCodes = {}
            if killed:
                mutant, number = self.random.choice(killed), self.random.randrange(self.plan.rounds)
                codes = self.plan.pair(mutant, number).twin
            tests = [test for test in killers if test in self.counted]
            observed = self.processes.observe(codes, tests)
            missing = [test for test in tests if test not in observed.ended]
            for test in (*observed.failed, *missing[:1]):
                self._leave_out(test)

    def _note_uncounted(self) -> None:
        """Note the tests that cannot kill: those that neither pass nor fail, and kill nothing."""
        killers = {test for tests in self.killers.values() for test in tests}
        for test, ended in self.counted.items():
            result = ended.result
            if result != "passed" and result != "failed" and test not in killers:
                self.uncounted[self.name(test)] = result

    def _is_doubtful(self, mutant: Mutant) -> bool:
        """Whether a break was killed by a test that no longer counts."""
        return any(test not in self.counted for test in self.killers.get(mutant.page.id, ()))

    def _note_recognising(self, tests: Sequence[int]) -> None:
        """Note tests that fail on a twin: one that does so again does not count any more."""
        self.recognised += bool(tests)
        for test in tests:
            self.caught[test] += 1
            if self.caught[test] > 1:
                self.counted.pop(test, None)
        if self.recognised > max(_FEW, _MOST_RECOGNISED * self.twins):
            raise NotGradable(
                "its tests fail on correct code that is only written in another way, "
                "{times} times: they recognise code instead of testing what it does",
                times=self.recognised,
            )

    def _judge(self, mutant: Mutant) -> BreakResult:
        start = time.perf_counter()
        if not mutant.files.codes:
            return mutant.result("does-not-apply")
        runner = _SuiteRunner(self, mutant)
        verdict = judge(runner, self.random, self._rounds)
        self._note(mutant, verdict)
        result = mutant.result(
            _fate(verdict, runner.reaching),
            by=list(map(self.name, verdict.killers or verdict.recognising)),
            reached_by=list(map(self.name, runner.reaching)),
            path=runner.path if runner.reaching else None,
            seconds=time.perf_counter() - start,
        )
        ended = {self.name(test): how for test, how in runner.ended.items()}
        return msgspec.structs.replace(result, ended=ended)

    def _rounds(self, tests: Sequence[int]) -> int:
        """Return under how many rewrites tests must kill: more if one of them never has killed."""
        new = any(not self.kills[test] for test in tests)
        return max(self.plan.rounds, FIRST_ROUNDS) if new else self.plan.rounds

    def _note(self, mutant: Mutant, verdict: TrialVerdict[int]) -> None:
        """Note which tests kill, and which do not count any more. Raises NotGradable."""
        self.kills.update(verdict.killers)
        self.killers[mutant.page.id] = verdict.killers
        for test in verdict.unsteady:
            self._leave_out(test)
        self.twins += verdict.twin_path is not None
        self._note_recognising(verdict.recognising)


def _fate(verdict: TrialVerdict[int], reaching: Sequence[int]) -> Fate:
    if verdict.killers:
        return "killed"
    if verdict.recognising:
        return "recognised"
    return "survived" if reaching else "not-reached"


def _share(excluded: Iterable[str], passing: Iterable[str]) -> float:
    """Return how much of a suite is excluded, in percent.

    Every test function counts the same, and its weight is divided among its parameters.
    """
    wrong = Counter(map(_function, excluded))
    every = wrong + Counter(map(_function, passing))
    lost = sum(count / every[name] for name, count in wrong.items())
    return round(100 * lost / len(every), 2) if every else 0.0


def _function(test: str) -> str:
    file, _, name = test.partition("::")
    return f"{file}::{name.partition('[')[0]}"


class _SuiteRunner:
    """Runs the tests of a suite on one break and its twin."""

    def __init__(self, grading: _Grading, mutant: Mutant) -> None:
        self.grading, self.mutant = grading, mutant
        self.reload = False
        self.ended: dict[int, str] = {}
        """The tests that ended the process or did not end, and how."""
        self.reaching = grading.reaching(mutant)

    @property
    def path(self) -> Literal["swapped", "reloaded"]:
        """How the code is put into the engine."""
        return "reloaded" if self.reload else "swapped"

    def tests(self) -> list[int]:
        """Return the tests that still count, those that killed most first."""
        kills, counted = self.grading.kills, self.grading.counted
        left = [test for test in self.reaching if test in counted and test not in self.ended]
        return sorted(left, key=lambda test: (-kills[test], counted[test].seconds, test))

    def failing(
        self, version: TrialVersion, number: int, tests: Sequence[int], until: int | None = None
    ) -> list[int]:
        """Return the first test that fails. Ending the process, or hanging, is not a failure."""
        pair = self.grading.plan.pair(self.mutant, number)
        codes = pair.broken if version == "broken" else pair.twin
        pending = list(tests)
        while pending:
            observed = self._observe(codes, pending, until)
            if observed.failed:
                return observed.failed[:1]
            if until in observed.ended or not observed.problem:
                return []
            pending = [test for test in pending if test not in observed.ended]
            self.ended.update(dict.fromkeys(pending[:1], observed.problem))
            if until in pending[:1] or len(self.ended) > MOST_TRIES:
                return []
            del pending[:1]
        return []

    def _observe(
        self, codes: PackedCodes, tests: Sequence[int], until: int | None
    ) -> EngineResults:
        observed = self.grading.processes.observe(
            codes, tests, until=until, stop=True, reload=self.reload
        )
        if observed.path == "reloaded" and not self.reload:
            self.reload = True
            self.reaching = list(self.grading.counted)
        return observed
