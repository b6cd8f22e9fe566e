"""Breaks that cannot be swapped: their tests run in a process that imports the broken engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from harness.engines.engine import Engine
from harness.grade.mutants import PatchedFiles
from harness.plugin.reloading import RunFailed, run_reloaded, same_options
from harness.plugin.runners import BreakOutcome, TimeLimit
from harness.plugin.zygote import UNCOLLECTED, Reload, Zygote
from harness.sandbox.server import end_all

_CLEAN = PatchedFiles()

TestNumbers = Mapping[str, int]
"""The numbers of tests, by id."""


class Reloads:
    """Runs tests in forks of the zygote, or in fresh processes if there is none."""

    def __init__(self, config: pytest.Config, engine: Engine) -> None:
        self.config, self.engine = config, engine
        self.zygote: Zygote | None = None
        """Ended if a test fails there without a break."""
        self._tests: TestNumbers = {}
        self._limit = TimeLimit(0.0, 0.0)
        self._libraries: Sequence[str] | None = None
        """Those that the zygote has yet to import."""
        self._controlled: set[int] = set()
        """The tests that have passed in the zygote without a break."""
        self._fresh_problem: str | None = None
        """Why a fresh process cannot run the tests without a break; None if it was not tried."""

    def start(self, tests: TestNumbers, taken: TimeLimit, libraries: Sequence[str]) -> None:
        """Say which tests pass, how long they take in all, and which libraries they import."""
        self._tests, self._libraries = tests, libraries
        self._limit = TimeLimit(60 + 20 * taken.seconds, 20 + 20 * taken.cpu_seconds)

    def run(
        self, files: PatchedFiles, tests: TestNumbers | None = None, *, stop: bool = True
    ) -> BreakOutcome:
        """Run the tests on a break; all of them, or these."""
        chosen = self._tests if tests is None else tests
        if self._has_zygote():
            outcome = self._run_in_zygote(files, chosen, stop)
            if self._is_credible(outcome, chosen):
                return outcome
            self.end()
        return self._run_in_fresh_process({**self.engine.sources, **files.texts}, chosen)

    def end(self) -> None:
        """End the zygote."""
        if self.zygote is not None:
            end_all([self.zygote])
            self.zygote = None

    def _has_zygote(self) -> bool:
        if self.zygote is not None and self._libraries is not None:
            usable = self.zygote.prepare(self._libraries)
            self._libraries = None
            if not usable:
                self.end()
        return self.zygote is not None

    def _run_in_zygote(self, files: PatchedFiles, tests: TestNumbers, stop: bool) -> BreakOutcome:
        assert self.zygote is not None
        return self.zygote.run(Reload(files, tests, stop, self._limit))

    def _is_credible(self, outcome: BreakOutcome, tests: TestNumbers) -> bool:
        """Whether the tests that fail in the zygote pass there without the break."""
        failed = {name: test for name, test in tests.items() if test in outcome.failed}
        suspects = tests if outcome.problem else failed
        unknown = {name: test for name, test in suspects.items() if test not in self._controlled}
        if not unknown:
            return True
        control = self._run_in_zygote(_CLEAN, unknown, stop=True)
        self._controlled.update(unknown.values())
        return not (control.failed or control.problem)

    def _run_in_fresh_process(self, sources: Mapping[str, str], tests: TestNumbers) -> BreakOutcome:
        try:
            names, problem = self._try_fresh_process(sources, tests)
        except RunFailed:
            self._check_fresh_process()
            return BreakOutcome(problem=UNCOLLECTED)
        return BreakOutcome(failed=[tests[name] for name in names], problem=problem)

    def _try_fresh_process(
        self, sources: Mapping[str, str], tests: TestNumbers
    ) -> tuple[list[str], str]:
        arguments = [*same_options(self.config), *tests]
        folder = Path(self.config.rootpath)
        return run_reloaded(self.engine.root, sources, arguments, folder, self._limit.seconds)

    def _check_fresh_process(self) -> None:
        """Raise UsageError if a fresh process cannot run the tests without a break either."""
        if self._fresh_problem is None:
            try:
                self._try_fresh_process(self.engine.sources, self._tests)
                self._fresh_problem = ""
            except RunFailed as error:
                self._fresh_problem = str(error)
        if self._fresh_problem:
            raise pytest.UsageError(
                f"the tests do not run in a fresh process: {self._fresh_problem}"
            )
