"""Runners: processes that were forked after the collection, and fork again for each break.

A runner is a copy of pytest's process from before the first test, so no test has left anything in
it. For each break it forks once more, swaps the code of the changed functions, and runs only the
tests that reached one of them. A test fails there if pytest says so: fixtures, marks, warnings and
`unittest` are handled by pytest itself.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from types import CodeType
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from harness.grade.mutants import Mutant
from harness.grade.reach import Code
from harness.grade.running import CollectedSuite, be_silent, comparison_of
from harness.sandbox.fork import compute_in_fork
from harness.sandbox.parallel import Server
from harness.sandbox.signals import terminate

if TYPE_CHECKING:
    from harness.runs.comparison import CallComparison, Comparer


@dataclass(frozen=True)
class Reach:
    """What a passing test calls, and how long it takes."""

    numbers: frozenset[int] | None
    """The numbers of the engine's functions that it calls; None if they are not known."""
    seconds: float


@dataclass(frozen=True)
class Request:
    """A break to run tests on."""

    mutant: Mutant
    first: Sequence[int]
    """The tests that killed most so far, which run first."""
    only: frozenset[int] | None = None
    """The tests to choose from; None for all."""
    stop: bool = True
    """Whether to stop at the first test that fails."""
    everything: bool = False
    """Whether to also run the tests that reach no change."""
    compare: bool = False
    """Whether the code contains two versions, whose calls are compared."""


@dataclass(frozen=True)
class BreakOutcome:
    """What the tests find on a break."""

    reached: Sequence[int] = ()
    failed: Sequence[int] = ()
    problem: str = ""
    """How the process ended if it did not end by itself."""
    timed_out: bool = False
    """Whether it was ended because it took too long."""
    reload: bool = False
    """Whether the break cannot be swapped: nothing was run."""
    seconds: float = 0.0
    comparison: CallComparison | None = None
    """What the calls of the changed functions show, if that was asked for."""


@dataclass(frozen=True)
class _PassingTests:
    """What is known once all tests have run without a break."""

    reach: Mapping[int, Reach]
    """The tests that pass."""
    taken: TimeLimit
    """How long all tests took, also those that fail: the first one may do work for the others."""
    modules: Sequence[str]
    """The installed modules that the tests imported, imported here once and not for each break."""


PATIENCE, CPU_PATIENCE = 10.0, 3.0
"""Seconds that the tests may take on a break, on top of twenty times their time without one: of
wall time, and of processor time."""


MORE = 5
"""How many times longer the tests may take if every call is compared."""


@dataclass(frozen=True)
class TimeLimit:
    """How long tests take, or may take."""

    seconds: float
    cpu_seconds: float


class BreakRunner(Server):
    """A runner, as seen from pytest's process."""

    def __init__(
        self, items: Sequence[pytest.Item], code: Code, called: Collection[CodeType] | None
    ) -> None:
        """Fork it; `called` are the code objects that ran before, None if they are not known."""
        super().__init__(partial(_serve, items, code, called))

    def start(self, reach: Mapping[int, Reach], taken: TimeLimit, modules: Sequence[str]) -> None:
        """Tell it what the tests reach without a break, and which libraries they import."""
        self.send(_PassingTests(reach, taken, modules))

    def send(self, request: _PassingTests | Request) -> None:
        """Send a request. If the runner has ended, this shows when the outcome is read."""
        with contextlib.suppress(OSError):
            self.connection.send(request)


def run_all(
    runners: Sequence[BreakRunner], requests: Iterator[tuple[Any, Request]]
) -> Iterator[tuple[Any, BreakOutcome]]:
    """Yield the outcome of each request with its name; each idle runner gets the next request."""
    working: dict[Connection, tuple[BreakRunner, Any]] = {}

    def give(runner: BreakRunner) -> None:
        for name, request in requests:
            working[runner.connection] = runner, name
            runner.send(request)
            return

    for runner in runners:
        give(runner)
    while working:
        for ready in wait(list(working)):
            assert isinstance(ready, Connection)
            runner, name = working.pop(ready)
            try:
                outcome = ready.recv()
            except (EOFError, OSError):  # it has ended, perhaps without reading the request
                yield name, BreakOutcome(problem="the process that runs the tests has ended")
                continue
            yield name, outcome
            give(runner)


# ----- In the runner -----


def _serve(
    items: Sequence[pytest.Item],
    code: Code,
    called: Collection[CodeType] | None,
    connection: Connection,
) -> NoReturn:
    suite = CollectedSuite(items, code, called)
    gc.freeze()  # otherwise a collection in a fork would copy every page
    tests: _PassingTests = connection.recv()
    import_all(tests.modules)
    suite.warm()
    while True:
        connection.send(_answer(suite, tests, connection.recv()))


def uses_cuda() -> bool:
    """Whether this process has initialised CUDA, which then does not work in its forks."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)  # a stand-in for PyTorch may lack it
    is_initialized = getattr(cuda, "is_initialized", None)
    return is_initialized is not None and is_initialized() is True


def import_all(modules: Sequence[str]) -> None:
    """Import modules; skip those that fail."""
    for name in modules:
        with contextlib.suppress(BaseException):
            importlib.import_module(name)


def _answer(suite: CollectedSuite, tests: _PassingTests, request: Request) -> BreakOutcome:
    """Run the tests that reach the change, in a fork; without such a test, nothing is run."""
    if uses_cuda():
        return BreakOutcome(reload=True)
    codes = request.mutant.codes
    pairs = suite.functions.plan(codes)
    if pairs is None:
        return BreakOutcome(reload=True)
    changed = suite.code.changed(pairs)
    reached = [
        index
        for index, reach in tests.reach.items()
        if (request.everything or reach.numbers is None or changed & reach.numbers)
        and (request.only is None or index in request.only)
    ]
    if not reached:
        return BreakOutcome()
    rank = {index: position for position, index in enumerate(request.first)}
    order = sorted(reached, key=lambda i: (rank.get(i, len(rank)), tests.reach[i].seconds, i))
    if request.compare:  # the first wrong number does not depend on how long tests take
        order = sorted(reached)

    def run() -> BreakOutcome:
        suite.swap(pairs, codes, request.mutant.files.texts)
        be_silent(suite.items[0].config)
        if request.compare:
            comparer = open_comparer()
            failing = suite.run(
                order, stop=False, around=comparer.during, until=comparer.is_decided
            )
            return BreakOutcome(reached, comparison=comparison_of(comparer, failing))
        return BreakOutcome(reached, list(suite.run(order, stop=request.stop)))

    taken = tests.taken
    times = MORE if request.compare else 1
    limit = TimeLimit(
        times * (PATIENCE + 20 * taken.seconds), times * (CPU_PATIENCE + 20 * taken.cpu_seconds)
    )
    return outcome_in_fork(run, limit)


def open_comparer() -> Comparer:
    """In a fork: let code that contains two versions compare its calls."""
    from harness.runs.comparison import Comparer  # only for survivors

    comparer = Comparer()
    comparer.install()
    return comparer


def outcome_in_fork(work: Callable[[], BreakOutcome], limit: TimeLimit) -> BreakOutcome:
    """Return the outcome of tests that are run in a fork of this process.

    If SIGTERM ends this process meanwhile, it ends the fork first, with what the fork has started.
    """
    start, before = time.perf_counter(), _cpu_seconds_of_children()
    inherited = signal.signal(signal.SIGTERM, terminate) or signal.SIG_DFL
    try:
        data = compute_in_fork(partial(_pickled, work, inherited), limit.cpu_seconds, limit.seconds)
    finally:
        signal.signal(signal.SIGTERM, inherited)
    seconds, used = time.perf_counter() - start, _cpu_seconds_of_children() - before
    if data is not None:
        outcome: BreakOutcome = pickle.loads(data)
    elif seconds >= limit.seconds:
        problem = f"not done after {limit.seconds:.0f} seconds"
        outcome = BreakOutcome(problem=problem, timed_out=True)
    elif used > limit.cpu_seconds / 2:  # the timer has its own clock, and may be early
        problem = f"not done after {used:.1f} seconds of processor time"
        outcome = BreakOutcome(problem=problem, timed_out=True)
    else:
        outcome = BreakOutcome(problem="the process that ran the tests ended early")
    return replace(outcome, seconds=seconds)


def _cpu_seconds_of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


# ----- In the fork -----


def _pickled(work: Callable[[], BreakOutcome], on_request: Any) -> bytes:
    signal.signal(signal.SIGTERM, on_request)
    try:
        outcome = work()
    except BaseException as error:  # a broken engine may raise anything, anywhere
        outcome = BreakOutcome(problem=f"{type(error).__name__}: {error}"[:300])
    return pickle.dumps(outcome)
