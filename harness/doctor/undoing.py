"""Breaks that an engine has: those whose patch, undone at one place, makes findings right.

What some bugs do depends on the engine that has them: after a walk in the wrong order, a gradient
is missing where an engine starts with None, zero where it starts with zeros, and partly right where
the first op is walked before its operands. No other engine gives the same numbers then. So the
patch of a page is reversed: what it writes is searched for, and replaced by what it removes. If
that makes most probes of a finding right, and changes no probe that was right, the engine has the
break at that place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from harness.core.errors import BreaklabError
from harness.core.report import SiteReport
from harness.core.run import Run
from harness.doctor.matching import MOST_NAMED, Explanation, Observed, same_result
from harness.doctor.roots import Root, runs_site
from harness.engines.engine import Engine
from harness.experiment.baseline import Baseline, RunId
from harness.experiment.patching import undone
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import Break
from harness.pages.page import Page
from harness.patch import Patched
from harness.runs.cached_runs import run_cached
from harness.runs.isolated import EngineDoesNotLoad

MOST_TRIED = 60
"""The number of places at which breaks are undone for a finding."""


@dataclass(frozen=True)
class Repair:
    """An engine in which some breaks are undone at one place."""

    engine: Engine
    site: SiteReport
    """The place in the engine as it is."""
    pages: tuple[Page, ...]
    """The breaks that are the same there."""


class BreakUndoer:
    """Undoes breaks in an engine, and observes what becomes right."""

    def __init__(
        self,
        observed: Observed,
        catalogue: Catalogue,
        baseline: Baseline,
        called: Mapping[str, AbstractSet[str]],
    ) -> None:
        self._observed, self._catalogue, self._called = observed, catalogue, called
        self._baseline = baseline.bare()

    def explain(self, root: Root) -> Explanation:
        """Return the breaks whose undoing makes most of the wrong probes right.

        The search ends with a repair that makes all of the finding's probes right.
        """
        observed, judging = self._observed, [name for name in root.probes if self._is_shown(name)]
        explained: list[tuple[frozenset[str], Repair]] = []
        for repair in self._near(judging[0]) if judging else ():
            if not self._agreeing(repair.engine, judging[:1], observed.correct, losses=1):
                continue
            names = self._right(repair.engine)
            keeps = 2 * len(names & set(root.probes)) >= len(root.probes)
            if keeps and self._changes_nothing(repair.engine):
                explained.append((names, repair))
                if names.issuperset(judging):
                    break
        if not explained:
            return Explanation((), frozenset())
        names, repair = max(explained, key=lambda item: len(item[0]))
        return Explanation(repair.pages[:MOST_NAMED], names, site=repair.site)

    def _near(self, probe: str) -> Iterator[Repair]:
        """Yield the repairs of functions that a probe calls, as many as are tried."""
        called, engine = self._called.get(probe), self._observed.engine
        near = [
            item for item in self._repairs if not called or runs_site(item.site, called, engine)
        ]
        yield from near[:MOST_TRIED]

    @cached_property
    def _repairs(self) -> list[Repair]:
        """All repairs, those of breaks of a low level first."""
        engine = self._observed.engine
        found: dict[frozenset[tuple[str, str]], Repair] = {}
        pages = [page for page in self._catalogue.pages[0] if isinstance(page.front, Break)]
        for page in sorted(pages, key=_level):
            for patched in _undone(page, engine):
                key = frozenset(patched.sources.items())
                first = patched.sites[0]
                site = SiteReport(first.file, patched.line, first.scope)
                others = found[key].pages if key in found else ()
                if page not in others:
                    found[key] = Repair(engine.patched(patched), site, (*others, page))
        return list(found.values())

    def _is_shown(self, probe: str) -> bool:
        """Whether a probe's result differs from that of an engine that does nothing."""
        runs = [run for (name, _), run in self._observed.correct.items() if name == probe]
        return any(run.log or _is_nonzero(run) for run in runs)

    def _right(self, engine: Engine) -> frozenset[str]:
        """Return the wrong probes that give minigrad's numbers on a repaired engine."""
        shown = filter(self._is_shown, self._observed.wrong)
        return self._agreeing(engine, list(shown), self._observed.correct)

    def _changes_nothing(self, engine: Engine) -> bool:
        """Whether the probes that are right give the same numbers on a repaired engine."""
        right = self._observed.right
        return self._agreeing(engine, right, self._observed.runs) == right

    def _agreeing(
        self,
        engine: Engine,
        names: Collection[str],
        expected: Mapping[RunId, Run],
        losses: int | None = None,
    ) -> frozenset[str]:
        """Return the probes with the expected numbers, with so many losses; None for all."""
        probes = [self._observed.probes[name] for name in sorted(names)]
        job = self._baseline.job(engine.without_sites(), probes)
        try:
            runs = run_cached(job.only(range(losses)) if losses else job, self._baseline.cache)
        except EngineDoesNotLoad:
            return frozenset()
        # The numbers of the other run, in the precision of the engine's.
        wrong = {run.probe for run in runs if not same_result(expected[run.probe, run.loss], run)}
        return frozenset(names) - wrong


def _is_nonzero(run: Run) -> bool:
    return any(array is not None and array.numpy().any() for array in run.gradients.values())


def _undone(page: Page, engine: Engine) -> Iterator[Patched]:
    with suppress(BreaklabError):  # a source that cannot be parsed
        yield from undone(page, engine)


def _level(page: Page) -> int:
    assert isinstance(page.front, Break)
    return page.front.level
