"""Breaks that cannot be swapped: their tests run in a process that imports the broken engine.

There are three ways to run a break, and each is needed:

- A *runner* (`runners.py`) swaps code in a fork: nearly every break. It cannot do one that changes
  what an import does, or a function that the collection has called.
- The *zygote* is a copy of pytest's process from before the tests and the engine were imported. It
  forks for each break that is left. The fork collects the tests with the broken engine and runs
  them, with the user's options, plugins and `conftest.py`, which are already loaded. So it costs no
  new start of Python, but it cannot help if a `conftest.py` or a plugin has imported the engine, or
  if a test that passes fails in a fork.
- A *fresh process* can do these, too. It starts pytest anew for each break, with the patched text.
"""

from __future__ import annotations

import gc
import json
import marshal
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from harness.engines.engine import Engine
from harness.engines.loading import find_in_memory
from harness.grade.mutants import PatchedFiles
from harness.grade.reach import CALLS, Code
from harness.grade.running import Outcomes, be_silent, comparison_of, run_in_order, warm_hypothesis
from harness.plugin import PATCHED
from harness.plugin.runners import (
    BreakOutcome,
    TimeLimit,
    import_all,
    open_comparer,
    outcome_in_fork,
)
from harness.sandbox.parallel import Server, end_all

if TYPE_CHECKING:
    import pytest

UNCOLLECTED = "the tests cannot be collected"
"""The problem of a break on which pytest does not find the tests."""


@dataclass(frozen=True)
class Reload:
    """An engine to import, and the tests to run on it."""

    files: PatchedFiles
    tests: Mapping[str, int]
    """The numbers of the tests, by id."""
    stop: bool
    """Whether to stop at the first test that fails."""
    limit: TimeLimit
    compare: bool = False
    """Whether the code contains two versions, whose calls are compared."""


class Zygote(Server):
    """A zygote, seen from pytest's process."""

    def __init__(self, session: pytest.Session, code: Code) -> None:
        """Fork it."""
        super().__init__(partial(_serve, session, code))

    def prepare(self, libraries: Sequence[str]) -> bool:
        """Import libraries, once for all breaks; return whether the zygote can be used."""
        return bool(self._request(libraries))

    def run(self, reload: Reload) -> BreakOutcome:
        """Run tests on an engine."""
        outcome = self._request(reload)
        assert isinstance(outcome, BreakOutcome)
        return outcome

    def _request(self, request: Sequence[str] | Reload) -> bool | BreakOutcome:
        try:
            self.connection.send(request)
            reply: bool | BreakOutcome = self.connection.recv()
        except (EOFError, OSError):
            return isinstance(request, Reload) and BreakOutcome(problem="the zygote has ended")
        return reply


def imports_engine(code: Code) -> bool:
    """Return whether this process has imported the engine."""
    modules = list(sys.modules.values())
    return any(getattr(module, "__file__", None) in code.paths for module in modules)


# ----- In the zygote -----


def _serve(session: pytest.Session, code: Code, connection: Connection) -> NoReturn:
    CALLS.stop()
    while True:
        request = connection.recv()
        if isinstance(request, Reload):
            work = partial(_run, session, code, request)
            connection.send(outcome_in_fork(work, request.limit))
        else:
            connection.send(_prepare(session, code, request))


def _prepare(session: pytest.Session, code: Code, libraries: Sequence[str]) -> bool:
    be_silent(session.config)
    for name in ("breaklab-session", "breaklab-recording"):
        session.config.pluginmanager.unregister(name=name)
    import_all(libraries)
    warm_hypothesis()
    gc.freeze()  # otherwise a collection in a fork would copy every page
    return not imports_engine(code)


# ----- In the fork -----


def _run(session: pytest.Session, code: Code, reload: Reload) -> BreakOutcome:
    """Collect the tests on the engine, and run them in their usual order."""
    patched = {file: marshal.loads(data) for file, data in reload.files.codes.items()}
    texts = {**code.sources, **reload.files.texts}
    find_in_memory(code.root, texts, {**code.files, **patched})
    comparer = open_comparer() if reload.compare else None
    try:
        session.config.hook.pytest_collection(session=session)
    except BaseException:  # what a module raises at its import, and pytest's own errors
        return BreakOutcome(problem=UNCOLLECTED)
    items = session.items
    order = [place for place, item in enumerate(items) if item.nodeid in reload.tests]
    if session.testsfailed or len(order) < len(reload.tests):
        return BreakOutcome(problem=UNCOLLECTED)
    outcomes = Outcomes()
    session.config.pluginmanager.register(outcomes)
    numbers = {place: reload.tests[items[place].nodeid] for place in order}

    if comparer is None:
        failed = run_in_order(outcomes, items, order, stop=reload.stop)
        return BreakOutcome(failed=[numbers[place] for place in failed])
    failing = run_in_order(
        outcomes,
        items,
        order,
        stop=False,
        around=lambda place: comparer.during(numbers[place]),
        until=comparer.is_decided,
    )
    return BreakOutcome(comparison=comparison_of(comparer, failing))


# ----- A fresh process -----

QUIET = ("-q", "-x", "-p", "no:cacheprovider", "--tb=no")

_VALUED = (
    *("--breaks-engine", "--breaks-pages", "--breaks-rules"),
    *("--breaks-json", "--breaks-junit", "--breaks-sarif", "--breaks-min-score"),
    "--breaks-baseline",
)
_OF_XDIST = ("-n", "--numprocesses", "--dist", "--maxprocesses")


def same_options(config: pytest.Config) -> list[str]:
    """Return the options of a run, without ours, those of xdist and the names of the tests."""
    options: list[str] = []
    given = iter(config.invocation_params.args)
    for argument in given:
        name = argument.partition("=")[0]
        if argument in (*_VALUED, *_OF_XDIST):
            next(given, None)
        elif not (
            name.startswith("--breaks")
            or name in _OF_XDIST
            or re.fullmatch(r"-n\w+", argument)
            or argument in (*config.args, config.getoption("breaks"))
        ):
            options.append(argument)
    return [*options, *(("-n0",) if config.pluginmanager.hasplugin("xdist") else ())]


class RunFailed(Exception):
    """Pytest did not run the tests, which says nothing about the break."""


def run_reloaded(
    root: Path, sources: Mapping[str, str], arguments: Sequence[str], folder: Path, limit: float
) -> tuple[list[str], str]:
    """Run pytest in a fresh process that loads the engine from these files.

    Returns
    -------
    list of str, str
        The tests that fail, and how the process ended if it did not end by itself.

    Raises RunFailed if pytest could not run them, and TimeoutExpired if they took too long.
    """
    with tempfile.TemporaryDirectory(prefix="breaklab-") as scratch:
        task = Path(scratch) / "engine.json"
        task.write_text(json.dumps({"root": str(root), "sources": dict(sources)}), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", *QUIET, *arguments]
        environment = {**os.environ, PATCHED: str(task), "PYTEST_ADDOPTS": ""}
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            timeout=limit,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        failed = Path(f"{task}.failed")
        names = failed.read_text(encoding="utf-8").split("\n")[:-1] if failed.exists() else []
        if done.returncode in (4, 5):  # wrong arguments, no tests
            raise RunFailed(f"`{' '.join(command[:20])} ...` ended with status {done.returncode}")
        problem = "" if done.returncode in (0, 1) else f"pytest ended with status {done.returncode}"
        return names, problem


# ----- Which of the two runs a break -----

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

    def compare(self, files: PatchedFiles, tests: TestNumbers) -> BreakOutcome | None:
        """Compare the calls of two versions in the zygote; None without one."""
        if not self._has_zygote():
            return None
        assert self.zygote is not None
        return self.zygote.run(Reload(files, tests, stop=False, limit=self._limit, compare=True))

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
        except subprocess.TimeoutExpired:
            problem = f"not done after {self._limit.seconds:.0f} seconds"
            return BreakOutcome(problem=problem, timed_out=True)
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
            except subprocess.TimeoutExpired:
                self._fresh_problem = ""
            except RunFailed as error:
                self._fresh_problem = str(error)
        if self._fresh_problem:
            raise pytest.UsageError(
                f"the tests do not run in a fresh process: {self._fresh_problem}"
            )
