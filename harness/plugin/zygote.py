"""A zygote: a copy of pytest's process from before the tests and the engine were imported.

It forks for each break whose code cannot be swapped. The fork collects the tests with the broken
engine and runs them, with the user's options, plugins and `conftest.py`, which are already loaded.
"""

from __future__ import annotations

import gc
import marshal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import NoReturn

import pytest

from harness.engines.loading import find_in_memory
from harness.grade.calls import CALLS
from harness.grade.code import Code
from harness.grade.mutants import PatchedFiles
from harness.grade.running import Outcomes, be_silent, run_in_order, warm_hypothesis
from harness.plugin.runners import Outcome, TimeLimit, import_all, outcome_in_fork
from harness.sandbox.server import Server

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


class Zygote(Server):
    """A zygote, seen from pytest's process."""

    def __init__(self, session: pytest.Session, code: Code) -> None:
        """Fork it."""
        super().__init__(partial(_serve, session, code))

    def prepare(self, libraries: Sequence[str]) -> bool:
        """Import libraries, once for all breaks; return whether the zygote can be used."""
        return bool(self._request(libraries))

    def run(self, reload: Reload) -> Outcome:
        """Run tests on an engine."""
        outcome = self._request(reload)
        assert isinstance(outcome, Outcome)
        return outcome

    def _request(self, request: Sequence[str] | Reload) -> bool | Outcome:
        try:
            self.connection.send(request)
            reply: bool | Outcome = self.connection.recv()
        except (EOFError, OSError):
            return isinstance(request, Reload) and Outcome(problem="the zygote has ended")
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


def _run(session: pytest.Session, code: Code, reload: Reload) -> Outcome:
    """Collect the tests on the engine, and run them in their usual order."""
    patched = {file: marshal.loads(data) for file, data in reload.files.codes.items()}
    texts = {**code.sources, **reload.files.texts}
    find_in_memory(code.root, texts, {**code.files, **patched})
    try:
        session.config.hook.pytest_collection(session=session)
    except BaseException:  # what a module raises at its import, and pytest's own errors
        return Outcome(problem=UNCOLLECTED)
    items = session.items
    order = [place for place, item in enumerate(items) if item.nodeid in reload.tests]
    if session.testsfailed or len(order) < len(reload.tests):
        return Outcome(problem=UNCOLLECTED)
    outcomes = Outcomes()
    session.config.pluginmanager.register(outcomes)
    failed = run_in_order(outcomes, items, order, stop=reload.stop)
    return Outcome(failed=[reload.tests[items[place].nodeid] for place in failed])
