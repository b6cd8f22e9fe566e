"""The bugs that a hunt can hide: those whose family can be found with the clues on sale.

This is computed from the committed matrices, which have the verdict of every diagnostic on every
break and every shared probe. A bug is left out if no clue shows it, or if every clue shows the same
for a bug of another family.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from harness.diagnostics import DIAGNOSTICS
from harness.diagnostics.crash import CRASH
from harness.matrix.catches import Pair
from harness.matrix.committed import committed_file, read_committed
from harness.matrix.cover import cheapest_cover
from harness.matrix.plan import size_of
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import Break
from harness.pages.probe import Probe

LOG, GRADIENTS = "log", "grads"
"""The clues that are not verdicts: the log of a training, and the gradients of a probe, each beside
that of the correct engine."""

SHOWN_BY_A_LOG = ("crash", "trajectory", "loss-falls")
"""The diagnostics whose verdict follows from a log and the correct one."""


@dataclass(frozen=True)
class Clue:
    """Something to buy: the verdict of a diagnostic on a probe, a log, or gradients."""

    kind: str
    """A diagnostic, LOG or GRADIENTS."""
    probe: str
    passes: float
    """The cost in forward passes, for all losses of the probe."""
    shows: frozenset[Pair] = frozenset()
    """The verdicts that it shows, as pairs of a probe and a diagnostic; none if it needs a library,
    so that no hunt depends on what is installed."""

    @property
    def name(self) -> str:
        """What to type to buy it."""
        return f"{self.kind}:{self.probe}"


@dataclass(frozen=True)
class Suspect:
    """A bug, and the diagnostics that raise an alarm on it, each with a shared probe."""

    id: str
    family: str
    level: int
    caught: frozenset[Pair]
    """Pairs of a probe and a diagnostic."""


@dataclass(frozen=True)
class Pool:
    """The bugs of a level that can be found, and what can be bought."""

    suspects: tuple[Suspect, ...]
    clues: Mapping[str, Clue]
    """By name."""

    @property
    def digest(self) -> str:
        """A short digest of the pool: in another pool, a seed may choose another bug."""
        facts = sorted((item.id, item.family, sorted(item.caught)) for item in self.suspects)
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]

    def ranked(self, seed: int) -> list[Suspect]:
        """Return the bugs in an order that depends on the seed: the first that fits is hunted."""

        def draw(suspect: Suspect) -> bytes:
            return hashlib.sha256(f"{seed}:{suspect.id}".encode()).digest()

        return sorted(self.suspects, key=draw)

    def cheapest(self, suspect: Suspect) -> list[Clue]:
        """Return the cheapest clues that tell the family of a bug in the pool."""
        return cheapest(suspect, self.suspects, self._telling)

    @cached_property
    def _telling(self) -> list[Clue]:
        """The clues that tell bugs of the pool apart; of those that tell the same, the cheapest."""
        cheapest_first = sorted(self.clues.values(), key=lambda clue: (clue.passes, clue.name))
        telling: dict[tuple[int, ...], Clue] = {}
        for clue in cheapest_first:
            labels: dict[frozenset[Pair], int] = {}
            parts = tuple(
                labels.setdefault(suspect.caught & clue.shows, len(labels))
                for suspect in self.suspects
            )
            if len(labels) > 1:
                telling.setdefault(parts, clue)
        return list(telling.values())


@dataclass(frozen=True)
class Scope:
    """What an engine of another design allows: the breaks that apply, and the probes that run."""

    breaks: frozenset[str]
    probes: frozenset[str]


def pool_of(
    catalogue: Catalogue, level: int, *, logs: bool = False, scope: Scope | None = None
) -> Pool:
    """Return the bugs of a level that can be found, with logs alone if that is wanted.

    Raises PageError for a committed matrix that cannot be read.
    """
    every = all_suspects(catalogue)
    # A diagnostic may be unable to judge a probe: then a verdict that is always the same says no
    # more than none.
    alarms = frozenset[Pair]().union(*(suspect.caught for suspect in every))
    clues = {
        name: replace(clue, shows=clue.shows & alarms)
        for name, clue in clues_for(catalogue.shared_probes, logs=logs).items()
        if scope is None or clue.probe in scope.probes
    }
    suspects = [
        suspect
        for suspect in every
        if suspect.level == level and (scope is None or suspect.id in scope.breaks)
    ]
    return Pool(tuple(solvable(suspects, clues.values())), clues)


def clues_for(probes: Mapping[str, Probe], *, logs: bool = False) -> dict[str, Clue]:
    """Return everything that can be bought, by name; only logs if that is wanted.

    The correct engine's log and gradients cost as much as those of the broken one.
    """
    clues = [clue for probe in probes.values() for clue in _clues_on(probe)]
    return {clue.name: clue for clue in clues if clue.kind == LOG or not logs}


def _clues_on(probe: Probe) -> Iterable[Clue]:
    size = size_of(probe).elements
    for item in DIAGNOSTICS:
        if probe.kind in item.kinds:
            pairs = frozenset() if item.library else frozenset([(probe.name, item.name)])
            yield Clue(item.name, probe.name, item.passes(size) * len(probe.losses), pairs)
    twice = 2 * CRASH.passes(size)
    if probe.refused:  # there is nothing to show beside it
        return
    if probe.kind == "steps":
        shown = frozenset((probe.name, name) for name in SHOWN_BY_A_LOG)
        yield Clue(LOG, probe.name, twice, shown)
    if probe.kind == "gradient":
        yield Clue(GRADIENTS, probe.name, twice)


def all_suspects(catalogue: Catalogue) -> list[Suspect]:
    """Return the breaks of minigrad that are in a committed matrix.

    Raises PageError for a committed matrix that cannot be read.
    """
    tables = (read_committed(committed_file(root, None)) for root in catalogue.roots)
    rows = {name: row for table in tables if table for name, row in table.items()}
    shared = catalogue.shared_probes
    return [
        Suspect(
            id=page.id,
            family=page.front.family,
            level=page.front.level,
            caught=frozenset(
                (probe, name)
                for name, probes in rows[page.id].caught_by.items()
                for probe in probes
                if probe in shared
            ),
        )
        for page in catalogue.pages[0]
        if page.id in rows and isinstance(page.front, Break)
    ]


def solvable(suspects: Iterable[Suspect], clues: Iterable[Clue]) -> list[Suspect]:
    """Return the bugs that some clue shows, and that the clues tell from every other family.

    There are none if all would be of one family.
    """
    readable = frozenset[Pair]().union(*(clue.shows for clue in clues))
    families: dict[frozenset[Pair], set[str]] = defaultdict(set)
    suspects = list(suspects)
    for suspect in suspects:
        families[suspect.caught & readable].add(suspect.family)
    pool = [
        suspect
        for suspect in suspects
        if (seen := suspect.caught & readable) and len(families[seen]) == 1
    ]
    return pool if len({suspect.family for suspect in pool}) > 1 else []


def cheapest(suspect: Suspect, pool: Collection[Suspect], clues: Iterable[Clue]) -> list[Clue]:
    """Return the cheapest clues whose verdicts no bug of another family in the pool shares.

    Raises ValueError if no clues suffice: the pool is not solvable.
    """
    rivals = [other for other in pool if other.family != suspect.family]
    named = {clue.name: clue for clue in clues if clue.shows}
    ruled_out = {
        name: {
            rival.id for rival in rivals if rival.caught & clue.shows != suspect.caught & clue.shows
        }
        for name, clue in named.items()
    }
    if not {rival.id for rival in rivals} <= set[str]().union(*ruled_out.values()):
        raise ValueError("a bug of another family looks the same")
    passes = {name: clue.passes for name, clue in named.items()}
    return [named[name] for name in cheapest_cover(ruled_out, passes)]
