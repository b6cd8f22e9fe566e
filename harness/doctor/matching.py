"""Breaks that give the same wrong numbers as an engine.

The breaks of the catalogue are put into minigrad, or into its variant that accumulates gradients as
the engine does, and run on the same probes. A break matches if it gives the same wrong numbers on a
basic probe of a finding and on at least half of its probes, and is right on every probe on which
the engine is right; if there is none, the latter is asked only of the probes that use the finding's
op. Nothing about the engine's source is compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import msgspec
import numpy as np

from harness.core import read_text
from harness.core.errors import BreaklabError, PageError
from harness.core.report import SiteReport
from harness.core.rounding import agree
from harness.core.run import Array, Failure, Run
from harness.doctor.roots import (
    Feature,
    Root,
)
from harness.engines.engine import Engine, find_engine
from harness.experiment.baseline import Baseline, RunId
from harness.experiment.comparison import has_wrong_output
from harness.experiment.patching import clean_engine, put
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import Break
from harness.pages.page import Page
from harness.pages.probe import Probe

MOST_NAMED = 2
"""The number of breaks that are named for a finding."""

BASIC = 3
"""The number of a finding's basic probes, on one of which a break has to end as the engine does."""


def _basic(root: Root) -> Sequence[str]:
    return root.probes[:BASIC]


@dataclass(frozen=True)
class Observed:
    """What was observed on an engine, and on minigrad with the same probes."""

    engine: Engine
    probes: Mapping[str, Probe]
    """The probes that show a bug, and those that are right, by name."""
    wrong: AbstractSet[str]
    """The names of those that show a bug."""
    runs: Mapping[RunId, Run]
    """The engine's runs of all of them."""
    correct: Mapping[RunId, Run]
    """Minigrad's."""
    features: Mapping[str, AbstractSet[Feature]] = field(default_factory=dict)
    """The features of each probe."""

    @property
    def right(self) -> AbstractSet[str]:
        """The names of the probes that the engine gets right."""
        return self.probes.keys() - self.wrong

    def using(self, op: str, names: AbstractSet[str]) -> AbstractSet[str]:
        """Return those of the names whose probes use an op."""
        return {name for name in names if Feature(op) in self.features.get(name, ())}


class BreakMatcher:
    """Finds the breaks of a catalogue that behave as observed on an engine."""

    def __init__(self, observed: Observed, catalogue: Catalogue, baseline: Baseline) -> None:
        self._observed, self._catalogue = observed, catalogue
        self._baseline = baseline.bare(select=True)

    def explain(self, root: Root) -> Explanation:
        """Return the breaks that explain the most findings; of these, those of the lowest level.

        A crash with a different message only decides between breaks that are otherwise equal.
        """
        pages = [page for page in self._breaks if self._may_show(page, root)]
        candidates = [(page, results) for page in pages if (results := self._shown(page, root))]
        observed, op = self._observed, root.feature.op if root.feature else ""
        best = _best(candidates, root, observed.wrong, observed.right)
        if best.pages or not op:
            return best
        wrong, right = (observed.using(op, names) for names in (observed.wrong, observed.right))
        return replace(_best(candidates, root, wrong, right), only_in=op)

    @cached_property
    def _breaks(self) -> list[Page]:
        return [page for page in self._catalogue.pages[0] if isinstance(page.front, Break)]

    @cached_property
    def _clean(self) -> Engine:
        """Minigrad, which accumulates gradients as the engine does."""
        like = self._observed.engine.like
        return clean_engine(find_engine(), self._catalogue.page(like, "variant") if like else None)

    def _may_show(self, page: Page, root: Root) -> bool:
        """Whether the break shows on a probe of the finding, as its page or the matrix states."""
        if page.id in self._committed:
            basic = _basic(root)
            return not self._committed[page.id].isdisjoint(basic) or any(
                self._states(page, name) for name in basic
            )
        return any(self._states(page, name) for name in root.probes)

    def _states(self, page: Page, name: str) -> bool:
        losses = self._observed.probes[name].losses
        stated = {page.expected(self._observed.engine.like, name, loss) for loss in losses}
        return bool(stated & {"crash", "silent-corruption"})

    @cached_property
    def _committed(self) -> dict[str, set[str]]:
        """The probes with which each break is caught in the committed matrix."""
        rows: dict[str, _Row] = {}
        for file in (root / "matrix.toml" for root in self._catalogue.roots):
            with suppress(PageError, msgspec.DecodeError):  # the pages' statements are used instead
                rows |= msgspec.toml.decode(read_text(file, _LARGEST), type=dict[str, _Row])
        return {name: set[str]().union(*row.caught_by.values()) for name, row in rows.items()}

    def _shown(self, page: Page, root: Root) -> dict[str, Result]:
        """Return a break's results; none if no basic probe of the finding ends as on the engine."""
        try:
            broken = self._clean.patched(put(page, self._clean))
        except BreaklabError:  # the variant may write it differently
            return {}
        if SAME.isdisjoint(self._results(broken, _basic(root)).values()):
            return {}
        return self._results(broken, list(self._observed.probes))

    def _results(self, broken: Engine, names: Sequence[str]) -> dict[str, Result]:
        probes = [self._observed.probes[name] for name in names]
        results: dict[str, set[Result]] = {name: set() for name in names}
        for run in self._baseline.broken(self._clean, broken, probes):
            results[run.probe].add(self._result(run))
        return {name: min(found, key=RESULTS.index) for name, found in results.items()}

    def _result(self, run: Run) -> Result:
        pair = (run.probe, run.loss)
        own, correct = self._observed.runs[pair], self._observed.correct[pair]
        if not (run.reached or run.failure) or same_result(run, correct):
            return "right"
        if not same_result(run, own):
            return "other"
        is_worded = run.failure and own.failure and run.failure.message != own.failure.message
        return "same failure" if is_worded else "same"


@dataclass(frozen=True)
class Explanation:
    """The breaks that match, and the findings that they explain."""

    pages: tuple[Page, ...]
    probes: frozenset[str]
    only_in: str = ""
    """The op outside which the engine is not like these breaks; empty if it is everywhere."""
    site: SiteReport | None = None
    """Where the engine has them, if they were undone there."""


def _best(
    candidates: Sequence[tuple[Page, Mapping[str, Result]]],
    root: Root,
    wrong: AbstractSet[str],
    right: AbstractSet[str],
) -> Explanation:
    """Return the breaks that explain most of the wrong probes.

    A break explains nothing if it shows on a probe that the engine gets right, or if it is like the
    engine on less than half of the finding.
    """
    explained = []
    for page, results in candidates:
        names = {name for name in wrong if results[name] in SAME}
        if 2 * len(names & set(root.probes)) < len(root.probes):
            continue
        if not any(results[name] == "other" for name in right):
            explained.append((page, {name: results[name] for name in names}))
    if not explained:
        return Explanation((), frozenset())
    most = max(_strength(results) for _, results in explained)
    best = [(page, results) for page, results in explained if _strength(results) == most]
    level = min(page.front.level for page, _ in best)
    lowest = [(page, results) for page, results in best if page.front.level == level]
    named = tuple(page for page, _ in lowest[:MOST_NAMED])
    return Explanation(named, frozenset(lowest[0][1]))


_LARGEST = 16 * 1024 * 1024
"""The largest committed matrix, in bytes."""


class _Row(msgspec.Struct, frozen=True):
    caught_by: dict[str, list[str]] = {}


Result = Literal["other", "same failure", "same", "right"]
"""A break's result on a probe: right, wrong like the engine's (perhaps with a different failure
message), or wrong in another way."""

RESULTS: tuple[Result, ...] = ("other", "same failure", "same", "right")
"""If the losses of a probe have different results, the first in this order counts."""

SAME = frozenset[Result]({"same failure", "same"})


def _strength(explained: Mapping[str, Result]) -> tuple[int, int]:
    return sum(result == "same" for result in explained.values()), len(explained)


def same_result(run: Run, other: Run) -> bool:
    """Whether two runs of a probe gave the same arrays, or failed in the same way.

    Numbers are compared as the other run stores them. Before a failure in the backward pass, the
    outputs have to agree too.
    """
    if run.failure or other.failure:
        is_same = _kind_of(run.failure) == _kind_of(other.failure)
        return is_same and not has_wrong_output(run, other)
    return (
        same_arrays({"": run.output}, {"": other.output})
        and same_arrays(run.gradients, other.gradients)
        and len(run.log) == len(other.log)
        and all(map(same_arrays, run.log, other.log))
    )


def _kind_of(failure: Failure | None) -> tuple[str, str] | None:
    return None if failure is None else (failure.phase, failure.type)


def same_arrays(arrays: Mapping[str, Array | None], others: Mapping[str, Array | None]) -> bool:
    """Whether two tables hold the same arrays, up to rounding in the precision of the others."""
    return arrays.keys() == others.keys() and all(
        _agree(array, others[name]) for name, array in arrays.items()
    )


def _agree(array: Array | None, other: Array | None) -> bool:
    """Whether two arrays agree; a gradient that never arrived may be None or a buffer of zeros."""
    if array is None or other is None:
        present = array or other
        return present is None or not present.numpy().any()
    stored = other.numpy()
    with np.errstate(all="ignore"):
        return agree(array.numpy().astype(stored.dtype), stored)
