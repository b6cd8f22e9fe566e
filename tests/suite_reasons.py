"""Checks the reasons of survivors, drawn by a seed, against all that an assertion could see.

    python -m tests.suite_reasons [SEED] [NUMBER] [SELECTION]

It runs the suites in `tests/suites` on both engines, and records the numbers that their tests could
have looked at: data and gradient of every tensor that they create or receive, after every backward
pass, step and test. If such a number is wrong, an assertion on these inputs kills the break, and
the reason must be "assertion". If none is, only other inputs do, and it must be "inputs".

Then the same tests run with other inputs (see `tests.other_inputs`), which lack a property that the
reason names; if it names none, with every kind of other inputs. A reason is confirmed if a test
fails that passes on the engine without the break, or could see a wrong number.
"""

from __future__ import annotations

import os
import pickle
import random
import sys
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from harness.core.rounding import wrong_entries
from harness.engines.engine import find_engine
from harness.engines.loading import find_in_memory
from harness.grade.mutants import Mutant, mutants
from harness.grade.running import fix_hypothesis
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE
from tests.other_inputs import CHANGES, NEGATING, Change, install, variants
from tests.suite_tables import results_of
from tests.suites import ROOT, SUITES, Suite

Snapshot = list[tuple[str, Any]]
"""What a test could see, in the order in which it could: a place, and an array or a text."""


class Watcher:
    """A plugin that records what tests could look at, and which of them pass."""

    def __init__(self, other: tuple[Change, int] | None = None) -> None:
        self.seen: dict[str, Snapshot] = {}
        self.failed: set[str] = set()
        self.other = other
        self.tensors: list[Any] = []
        self.events: Snapshot = []
        self.restart: Callable[[], None] = lambda: None

    def watch(self, kind: type, method: str) -> None:
        """Take a snapshot after each call that a test makes."""
        original = getattr(kind, method)

        def watched(*arguments: Any, **options: Any) -> Any:
            result = original(*arguments, **options)
            self.snapshot(method)
            return result

        setattr(kind, method, watched)

    def start(self) -> None:
        """Watch the engine, which is imported here."""
        from minigrad import optim
        from minigrad.tensor import Tensor

        if self.other is not None:
            self.restart = install(*self.other)
        fill = Tensor._fill

        def filled(tensor: Any, *arguments: Any, **options: Any) -> None:
            fill(tensor, *arguments, **options)
            self.tensors.append(tensor)

        setattr(Tensor, "_fill", filled)  # noqa: B010  mypy would refuse to assign a method
        self.watch(Tensor, "backward")
        for kind in optim.Optimizer.__subclasses__():
            if "step" in vars(kind):
                self.watch(kind, "step")

    def snapshot(self, where: str) -> None:
        """Record all numbers of leaves and results."""
        leaves = [tensor for tensor in self.tensors if tensor.is_leaf and tensor.requires_grad]
        for i, tensor in enumerate(leaves):
            self.events.append((f"{where}: leaf {i}", np.array(tensor.data)))
            grad = tensor.grad
            self.events.append((f"{where}: gradient {i}", None if grad is None else np.array(grad)))

    def pytest_collection(self) -> None:
        """Let Hypothesis draw the same examples on both engines."""
        fix_hypothesis()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Record what a test could see."""
        self.events = []
        self.restart()
        yield
        self.snapshot("end")
        outputs = [t for t in self.tensors if t.op]
        self.events += [(OUTPUT, np.array(tensor.data)) for tensor in outputs]
        self.events += [(OUTPUT, None if t.grad is None else np.array(t.grad)) for t in outputs]
        self.seen[item.nodeid] = self.events

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that fails."""
        if report.failed:
            self.failed.add(report.nodeid)


@dataclass(frozen=True)
class Watched:
    """What the tests of a suite could see on an engine, and which of them fail there."""

    seen: Mapping[str, Snapshot]
    failed: Collection[str]


def watched(
    suite: Suite,
    texts: Mapping[str, str],
    tests: Sequence[str] = (),
    other: tuple[Change, int] | None = None,
) -> Watched:
    """Run tests of a suite on an engine with these files changed, perhaps with other inputs."""
    read, write = os.pipe()
    if not (child := os.fork()):
        os.close(read)
        status = 1
        try:
            engine = find_engine()
            find_in_memory(engine.root, {**engine.sources, **texts})
            watcher = Watcher(other)
            watcher.start()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            options = suite.arguments[len(suite.paths) :]
            chosen = [*(tests or suite.paths), *options, "-p", "no:randomly"]
            pytest.main(chosen, plugins=[watcher])
            with os.fdopen(write, "wb") as pipe:
                pickle.dump(Watched(watcher.seen, watcher.failed), pipe)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    if not data:
        raise RuntimeError("the process that runs the tests has ended early")
    found: Watched = pickle.loads(data)
    return found


def difference(clean: Snapshot, broken: Snapshot) -> str:
    """Return the first number that differs; empty if none does.

    Results of ops are only compared if both engines have computed the same number of them.
    """
    for is_output in (False, True):
        pair = [
            [one for one in side if (one[0] == OUTPUT) == is_output] for side in (clean, broken)
        ]
        if len(pair[0]) == len(pair[1]):
            for (where, expected), (_, actual) in zip(*pair, strict=True):
                if _differ(actual, expected):
                    return str(where)
        elif not is_output:
            return "another number of leaves"
    return ""


def _differ(actual: Any, expected: Any) -> bool:
    if actual is None or expected is None:
        return actual is not expected
    return actual.shape != expected.shape or bool(wrong_entries(actual, expected).any())


OUTPUT = "a result"
DEFAULTS = ("0", "40", "all")


@dataclass(frozen=True)
class Confirmation:
    """What other inputs show of a survivor that the inputs are said to hide."""

    change: str
    """The change of the inputs; empty if none shows anything."""
    is_named: bool
    """Whether the reason names properties that can be changed, so that only these were."""
    is_killed: bool
    """Whether a test fails that passes on the engine without a break, with the same inputs.
    Otherwise, tests could see a wrong number."""

    def __str__(self) -> str:
        how = "killed by its own tests" if self.is_killed else "a wrong number can be seen"
        named = "named" if self.is_named else "not named"
        return f"{named}; {self.change}: {how}" if self.change else f"{named}; not confirmed"


def confirmation(suite: Suite, result: Mapping[str, Any], mutant: Mutant) -> Confirmation:
    """Change the inputs until a test fails or can see a wrong number.

    If the reason names properties that can be changed, only these are.
    """
    kinds = [one["kind"] for one in result["reason"]["common"]]
    named = [change for kind in kinds for change in NEGATING.get(kind, ())]
    tests, visible = result["reached_by"], Confirmation("", bool(named), False)
    for change in dict.fromkeys(named or CHANGES):
        for other in variants(change):
            clean = watched(suite, {}, tests, other)
            broken = watched(suite, mutant.files.texts, tests, other)
            if (clean.seen.keys() - clean.failed) & set(broken.failed):
                return Confirmation(change, bool(named), True)
            if not visible.change and places_of(clean, broken):
                visible = Confirmation(change, bool(named), False)
    return visible


def places_of(clean: Watched, broken: Watched) -> dict[str, str]:
    """Return the first number that tests could see to be wrong, by test."""
    return {
        test: place
        for test, seen in clean.seen.items()
        if (place := difference(seen, broken.seen.get(test, [])))
    }


def main(seed: int, number: int, selection: str) -> None:
    """Draw survivors, and print those whose reason does not agree with what tests could see."""
    drawn, survivors = random.Random(seed), []
    for suite in SUITES:
        for result in results_of(suite, selection):
            if result["fate"] == "survived" and result["reason"]["kind"] != "not-measured":
                survivors.append((suite, result))
    os.chdir(ROOT)
    agreeing, chosen = 0, drawn.sample(survivors, min(number, len(survivors)))
    confirmed: list[Confirmation] = []
    for suite, result in chosen:
        page = CATALOGUE.page(result["break"])
        (mutant,) = mutants([page], find_engine(), open_cache())
        tests = result["reached_by"]
        places = places_of(watched(suite, {}, tests), watched(suite, mutant.files.texts, tests))
        expected = "assertion" if places else "inputs"
        kind = result["reason"]["kind"]
        agreeing += kind == expected
        what: object = next(iter(places.items()), "")
        if kind == expected == "inputs":
            confirmed.append(confirmation(suite, result, mutant))
            what = confirmed[-1]
        mark = "ok " if kind == expected else "NOT"
        print(mark, suite.name, result["break"], kind, what, flush=True)
    print(f"{agreeing} of {len(chosen)} reasons agree; {len(survivors)} survivors")
    for is_named in (True, False):
        some = [one for one in confirmed if one.is_named == is_named]
        visible, killed = sum(bool(one.change) for one in some), sum(one.is_killed for one in some)
        what = "name a property" if is_named else "name none"
        print(f"inputs: {len(some)} {what}; other inputs confirm {visible}, and kill {killed}")


if __name__ == "__main__":
    given = [*sys.argv[1:], *DEFAULTS[len(sys.argv) - 1 :]]
    main(int(given[0]), int(given[1]), given[2])
