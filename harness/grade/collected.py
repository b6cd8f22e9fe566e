"""A collected suite and the engine that it has imported, in a process that forks for each run.

`pytest --breaks` and `harness grade` run tests this way. They differ in what confines the process,
which engines are tried, and who may read what a run raises.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import CodeType

import pytest

from harness.engines.loading import FileCodes, Replacement, find_in_memory
from harness.grade.code import Code
from harness.grade.running import Outcomes, locate, run_in_order, warm_hypothesis


class CollectedSuite:
    """The tests of a suite, and the functions of the engine.

    Parameters
    ----------
    items : sequence of pytest.Item
        At least one.
    code : Code
        The engine.
    called : collection of CodeType, optional
        What has been called so far; None if that is not known.
    """

    def __init__(
        self, items: Sequence[pytest.Item], code: Code, called: Collection[CodeType] | None
    ) -> None:
        self.items, self.code, self.outcomes = items, code, Outcomes()
        self.functions = code.functions(called)
        items[0].config.pluginmanager.register(self.outcomes)

    def warm(self) -> None:
        """Do what every fork would do for its first test."""
        locate(self.items)
        warm_hypothesis()
        gc.freeze()  # otherwise a collection in a fork would copy every page

    def swap(
        self, pairs: Sequence[Replacement], codes: FileCodes, texts: Mapping[str, str]
    ) -> None:
        """In a fork: turn the engine into the one with these files; `texts` may lack some.

        `pairs` are those that `Functions.plan` returns. Modules that have not been imported yet
        will be imported from these files, too.
        """
        find_in_memory(self.code.root, {**self.code.sources, **texts}, codes)
        self.functions.swap(pairs)

    def run(
        self,
        order: Sequence[int],
        *,
        stop: bool,
        around: Callable[[int], AbstractContextManager[object]] = nullcontext,
    ) -> Iterator[int]:
        """In a fork: run the tests with these numbers; see `run_in_order`."""
        return run_in_order(self.outcomes, self.items, order, stop=stop, around=around)
