"""Grading an untrusted suite: correct engines first, then every break and its twin.

The order matters: the tests must pass on the engine without a break, three times, and
on every correct engine; only then are breaks tried. A test kills a break if it passes on its twin
and fails on it under two rewrites. The parent never imports the suite: see
`harness.grade.confined` for where it runs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Literal

import msgspec

from harness.answer_key.outcome import infected
from harness.core.errors import UsageError
from harness.core.message import message
from harness.core.vocabulary import Stage, shortened, visible
from harness.grade.files import read_files
from harness.grade.mutants import Mutant
from harness.grade.plan import ROUNDS, GradingPlan, Pair
from harness.grade.processes import NotGradable, Observed, Processes
from harness.grade.protocol import Codes, Ended
from harness.grade.suite import BreakResult, CorrectEngine, Fate, SuiteReport

Progress = Callable[[int, int], None]
"""Called with the number of breaks that are done, and the number of all."""

TIMES = 3
"""How often the tests are run on the engine without a break."""

_MOST_RECOGNISED, _FEW = 0.1, 3
"""A suite is not gradable if tests fail on a larger share of the twins and on more than a few."""

_LONGEST_REASON = 1500

_MOST_TRACED = 50
"""The number of tests in which the values inside are compared."""

_MOST_TRIES = 5
"""The number of tests that may lose their verdict on one break before it counts as recognised."""


def grade_suite(path: Path, plan: GradingPlan, progress: Progress | None = None) -> SuiteReport:
    """Grade a file of tests, or the files `test_*.py` and `*_test.py` in a folder.

    The result says why a suite is not gradable. Raises UsageError if there is no such file or
    folder, and EnvironmentProblem if no process can be started.
    """
    start = time.perf_counter()
    require_suite(path)
    grading = _Grading(plan, progress or (lambda _done, _all: None))
    reason = ""
    try:
        with closing(
            Processes(path, read_files(path, conftest=plan.allow_conftest), plan)
        ) as processes:
            grading.grade(processes)
    except NotGradable as error:
        reason = shortened(visible(str(error)), _LONGEST_REASON)
    return SuiteReport(
        schema=1,
        suite=[str(path)],
        engine=plan.engine.name,
        gradable=not reason,
        reason=reason,
        tests=grading.tests,
        breaks=[] if reason else grading.results,
        claims={},
        seconds=round(time.perf_counter() - start, 3),
        correct=grading.correct,
        flaky=[grading.name(test) for test in sorted(grading.flaky)],
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
    progress: Progress
    correct: list[CorrectEngine] = field(default_factory=list)
    counted: dict[int, Ended] = field(default_factory=dict)
    """The tests that may kill a break, with what they did on the engine without one."""
    tests: int = 0
    """The number of tests that counted when the first break was tried."""
    flaky: set[int] = field(default_factory=set)
    results: list[BreakResult] = field(default_factory=list)
    kills: Counter[int] = field(default_factory=Counter)
    killers: dict[str, int | None] = field(default_factory=dict)
    caught: Counter[int] = field(default_factory=Counter)
    """The number of twins on which a test fails."""
    twins: int = 0
    recognised: int = 0
    """The number of breaks whose twin was run, and of those where a test failed on it."""

    def name(self, test: int) -> str:
        """Return the id of a test."""
        return visible(self.processes.tests[test])

    def grade(self, processes: Processes) -> None:
        """Run the suite on everything. Raises NotGradable."""
        self.processes = processes
        # The order is secret, too, and differs from suite to suite.
        self.random = Random(self.plan.seed + b"".join(processes.files.values()))
        processes.collect()
        self._run_on_clean()
        self._run_on_variants()
        self.tests = len(self.counted)
        self._run_on_breaks()
        if self.plan.stages:
            self.results = [self._with_stage(result) for result in self.results]

    def reaching(self, codes: Codes) -> list[int]:
        """Return the tests that count and call a function that differs in these files."""
        changed = self.plan.changed_functions(codes)
        return [
            test
            for test, ended in self.counted.items()
            if changed is None or ended.reached is None or changed.intersection(ended.reached)
        ]

    # ----- Correct engines -----

    def _run_on_clean(self) -> None:
        every = list(range(len(self.processes.tests)))
        runs: list[Observed] = []
        for number in range(TIMES):
            observed = self.processes.observe({}, every, record=number == 0)
            self._require_end(observed, every, self.plan.engine.name)
            runs.append(observed)
            if number == 0:
                self.processes.seconds = sum(e.seconds for e in observed.ended.values())
        results = {test: {run.ended[test].result for run in runs} for test in every}
        self.flaky = {test for test, seen in results.items() if len(seen) > 1}
        failed = [test for test, seen in results.items() if seen == {"failed"}]
        self.counted = {
            test: runs[0].ended[test] for test, seen in results.items() if seen == {"passed"}
        }
        name = self.plan.engine.name
        self.correct.append(CorrectEngine(name, len(self.counted), list(map(self.name, failed))))
        if failed:
            first = failed[0]
            how = runs[0].ended[first].message
            raise NotGradable(f"{self.name(first)} fails on the correct engine: {how}")
        if not self.counted:
            flaky = " the same way three times" if self.flaky else ""
            raise NotGradable(f"no test passes on the correct engine{flaky}")

    def _require_end(self, observed: Observed, tests: Sequence[int], engine: str) -> None:
        """Raise NotGradable unless all tests have ended."""
        missing = [test for test in tests if test not in observed.ended]
        if missing:
            how = observed.problem or "it did not end"
            raise NotGradable(f"{self.name(missing[0])} does not end on {engine}: {how}")

    def _run_on_variants(self) -> None:
        variants = list(self.plan.variants)
        self.random.shuffle(variants)
        rejecting = []
        for variant in variants:
            failed = self._failed_twice(dict(variant.files.codes))
            note = variant.page.title if failed else ""
            passed = len(self.counted) - len(failed)
            names = list(map(self.name, failed))
            self.correct.append(CorrectEngine(variant.page.id, passed, names, note))
            if failed:
                rejecting.append((names[0], variant.page))
        if rejecting:
            test, page = rejecting[0]
            more = len(rejecting) - 1
            others = f", and {more} more" if more else ""
            raise NotGradable(f"{test} fails on a correct engine: {page.title} ({page.id}{others})")

    def _failed_twice(self, codes: Codes) -> list[int]:
        """Return the tests that fail on a correct engine; those that fail only once are flaky.

        A test that calls no changed function is not run: it would behave as before.
        """
        failed = self._failed(codes)
        if not failed:
            return []
        again = self._failed(codes)
        for test in failed ^ again:
            self._leave_out(test)
        return sorted(failed & again)

    def _failed(self, codes: Codes) -> set[int]:
        """Return the tests that fail on a correct engine, and the first that does not end there."""
        tests = self.reaching(codes)
        if not tests:
            return set()
        observed = self.processes.observe(codes, tests)
        if observed.path == "reloaded" and len(tests) < len(self.counted):
            # What ran during the collection has also changed, and may matter to any test.
            tests = list(self.counted)
            observed = self.processes.observe(codes, tests, reload=True)
        missing = [test for test in tests if test not in observed.ended]
        return {*observed.failed, *missing[:1]}

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
        while doubtful := [m for m in pending if self._is_doubtful(m)]:
            for mutant in doubtful:
                results[mutant.page.id] = self._judge(mutant)
        self.progress(len(pending), len(pending))
        self.results = [results[mutant.page.id] for mutant in self.plan.breaks]

    def _is_doubtful(self, mutant: Mutant) -> bool:
        """Whether a break was killed by a test that no longer counts."""
        killer = self.killers.get(mutant.page.id)
        return killer is not None and killer not in self.counted

    def _note_recognising(self, tests: Sequence[int]) -> None:
        """Note tests that fail on a twin: one that does so again does not count any more."""
        self.recognised += bool(tests)
        for test in tests:
            self.caught[test] += 1
            if self.caught[test] > 1:
                self.counted.pop(test, None)
        if self.recognised > max(_FEW, _MOST_RECOGNISED * self.twins):
            raise NotGradable(
                f"its tests fail on correct code that is only written in another way, "
                f"{self.recognised} times: they recognise code, and not what it does"
            )

    def _judge(self, mutant: Mutant) -> BreakResult:
        start = time.perf_counter()
        fate: Fate = "does-not-apply"
        trial = None
        if mutant.files.codes:
            trial = _Trial(self, mutant)
            fate = trial.fate()
            self.twins += trial.twin_path is not None
            self._note_recognising(trial.recognising)
        killer = trial.killer if trial and fate == "killed" else None
        self.killers[mutant.page.id] = killer
        if killer is not None:
            self.kills[killer] += 1
        by = [killer] if killer is not None else trial.recognising if trial else []
        return mutant.result(
            fate,
            by=list(map(self.name, by)),
            reached_by=list(map(self.name, trial.reaching)) if trial else [],
            path=trial.path if trial and trial.reaching else None,
            seconds=time.perf_counter() - start,
        )

    # ----- Stages -----

    def _with_stage(self, result: BreakResult) -> BreakResult:
        """Return a result with how far the fault got; None if that is not known.

        This comes last: these runs contain the published break, and would give it away.
        """
        match result.fate, result.path:
            case "not-reached", _:
                stage: Stage | None = "not-reached"
            case "killed", _:
                stage = "revealed"
            case "survived", "swapped":
                stage = self._stage_of_survivor(result)
            case _:
                stage = None
        return msgspec.structs.replace(result, stage=stage)

    def _stage_of_survivor(self, result: BreakResult) -> Stage | None:
        (mutant,) = (m for m in self.plan.breaks if m.page.id == result.break_)
        marked, reaching = self.plan.marked(mutant), set(result.reached_by)
        tests = [test for test in self.counted if self.name(test) in reaching]
        chosen = sorted(tests, key=lambda test: self.counted[test].seconds)[:_MOST_TRACED]
        try:
            broken, clean = (
                self.processes.observe(codes, chosen, trail=True)
                for codes in (marked.broken, marked.clean)
            )
        except NotGradable:  # too late to matter
            return None
        if "reloaded" in (broken.path, clean.path):
            return None
        both = [test for test in chosen if test in broken.ended and test in clean.ended]
        if any(infected(broken.ended[test].trail, clean.ended[test].trail) for test in both):
            return "not-revealed"
        return "not-infected" if len(both) == len(tests) else None


class _Trial:
    """One break and its twin."""

    def __init__(self, grading: _Grading, mutant: Mutant) -> None:
        self.grading, self.mutant = grading, mutant
        self.recognising: list[int] = []
        """The tests that fail on the twin."""
        self.killer: int | None = None
        self.reload = False
        self.twin_path: str | None = None
        """How the twin was run; None if it was not."""
        self.excluded: set[int] = set()
        """The tests that ended the process, or did not end."""
        self.reaching = grading.reaching(mutant.files.codes)
        # Who goes first is drawn, so that the position of a run says nothing about it.
        self.twin_first = grading.random.random() < 0.25

    @property
    def path(self) -> Literal["swapped", "reloaded"]:
        """How the code is put into the engine."""
        return "reloaded" if self.reload else "swapped"

    def fate(self) -> Fate:
        """Return what becomes of the break."""
        for _ in range(_MOST_TRIES):
            if not self._tests():
                break
            if self.twin_first and self._recognises(self._tests()):
                continue
            killer = self._first_failure(self.pair.broken, self._tests())
            if killer is None:
                break
            twin_is_missing = not self.twin_first or self.twin_path != self.path
            if twin_is_missing and self._recognises(self._tests(), until=killer):
                continue
            if self._repeats(killer):
                self.killer = killer
                return "killed"
            self.grading._leave_out(killer)
        if self.recognising:
            return "recognised"
        return "survived" if self.reaching else "not-reached"

    def _tests(self) -> list[int]:
        """Return the tests that still count, those that killed most first."""
        kills, counted = self.grading.kills, self.grading.counted
        left = [
            test
            for test in self.reaching
            if test in counted and test not in self.excluded and test not in self.recognising
        ]
        return sorted(left, key=lambda test: (-kills[test], counted[test].seconds, test))

    def _recognises(self, tests: Sequence[int], until: int | None = None) -> bool:
        """Whether a test fails on the twin; it does not count on this break any more."""
        test = self._first_failure(self.pair.twin, tests, until)
        self.twin_path = self.path
        if test is not None:
            self.recognising.append(test)
        return test is not None

    @cached_property
    def pair(self) -> Pair:
        """The break and its twin; composed only if a test reaches the break."""
        return self.grading.plan.pair(self.mutant)

    def _repeats(self, killer: int) -> bool:
        """Whether a test fails on the break under every other rewrite, too."""
        others = (self.grading.plan.pair(self.mutant, number) for number in range(1, ROUNDS))
        return all(
            self._first_failure(pair.broken, self._tests(), killer) == killer for pair in others
        )

    def _first_failure(
        self, codes: Codes, tests: Sequence[int], until: int | None = None
    ) -> int | None:
        """Return the first test that fails. Ending the process, or hanging, is not a failure."""
        pending = list(tests)
        while pending:
            observed = self._observe(codes, pending, until)
            if observed.failed:
                return observed.failed[0]
            if until in observed.ended or not observed.problem:
                return None
            pending = [test for test in pending if test not in observed.ended]
            self.excluded.update(pending[:1])
            if until in pending[:1] or len(self.excluded) > _MOST_TRIES:
                return None
            del pending[:1]
        return None

    def _observe(self, codes: Codes, tests: Sequence[int], until: int | None) -> Observed:
        observed = self.grading.processes.observe(
            codes, tests, until=until, stop=True, reload=self.reload
        )
        if observed.path == "reloaded" and not self.reload:
            self.reload = True
            self.reaching = list(self.grading.counted)
        return observed
