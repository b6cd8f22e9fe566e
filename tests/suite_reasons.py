"""Checks the reasons of survivors, drawn by a seed, against all that an assertion could see.

    python -m tests.suite_reasons [SEED] [NUMBER] [SELECTION]

It runs the suites in `tests/suites` on both engines, and records the numbers that their tests could
have looked at: data and gradient of every tensor that they create or receive, after every backward
pass, step and test. If such a number is wrong, an assertion on these inputs kills the break, and
the reason must be "assertion". If none is, only other inputs do, and it must be "inputs".
"""

from __future__ import annotations

import os
import pickle
import random
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from harness.core.rounding import wrong_entries
from harness.engines.engine import find_engine
from harness.engines.loading import find_in_memory
from harness.grade.mutants import mutants
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE
from tests.suite_tables import results_of
from tests.suites import ROOT, SUITES, Suite

Snapshot = list[tuple[str, Any]]
"""What a test could see, in the order in which it could: a place, and an array or a text."""


class Watcher:
    """A plugin that records what tests could look at."""

    def __init__(self) -> None:
        self.seen: dict[str, Snapshot] = {}
        self.tensors: list[Any] = []
        self.events: Snapshot = []

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

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Record what a test could see."""
        self.events = []
        yield
        self.snapshot("end")
        outputs = [t for t in self.tensors if t.op]
        self.events += [(OUTPUT, np.array(tensor.data)) for tensor in outputs]
        self.events += [(OUTPUT, None if t.grad is None else np.array(t.grad)) for t in outputs]
        self.seen[item.nodeid] = self.events


def watched(suite: Suite, texts: Mapping[str, str]) -> dict[str, Snapshot]:
    """Return what the tests of a suite could see on an engine with these files changed."""
    read, write = os.pipe()
    if not (child := os.fork()):
        os.close(read)
        status = 1
        try:
            engine = find_engine()
            find_in_memory(engine.root, {**engine.sources, **texts})
            watcher = Watcher()
            watcher.start()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            pytest.main([*suite.arguments, "-p", "no:randomly"], plugins=[watcher])
            with os.fdopen(write, "wb") as pipe:
                pickle.dump(watcher.seen, pipe)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    found: dict[str, Snapshot] = pickle.loads(data)
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


def main(seed: int, number: int, selection: str) -> None:
    """Draw survivors, and print those whose reason does not agree with what tests could see."""
    drawn, survivors = random.Random(seed), []
    for suite in SUITES:
        for result in results_of(suite, selection):
            if result["fate"] == "survived" and result["reason"]["kind"] != "not-measured":
                survivors.append((suite, result))
    os.chdir(ROOT)
    agreeing, chosen = 0, drawn.sample(survivors, min(number, len(survivors)))
    clean: dict[str, dict[str, Snapshot]] = {}
    for suite, result in chosen:
        page = CATALOGUE.page(result["break"])
        (mutant,) = mutants([page], find_engine(), open_cache())
        if suite.name not in clean:
            clean[suite.name] = watched(suite, {})
        broken = watched(suite, mutant.files.texts)
        places = {
            test: place
            for test, seen in clean[suite.name].items()
            if (place := difference(seen, broken.get(test, [])))
        }
        expected = "assertion" if places else "inputs"
        kind = result["reason"]["kind"]
        agreeing += kind == expected
        mark = "ok " if kind == expected else "NOT"
        print(mark, suite.name, result["break"], kind, next(iter(places.items()), ""), flush=True)
    print(f"{agreeing} of {len(chosen)} reasons agree; {len(survivors)} survivors")


if __name__ == "__main__":
    given = [*sys.argv[1:], *DEFAULTS[len(sys.argv) - 1 :]]
    main(int(given[0]), int(given[1]), given[2])
