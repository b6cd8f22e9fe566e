"""Set cover: the smallest cover, and the most that can be covered at a given cost.

There are two exact algorithms. A solver finds the smallest cover among thousands of sets;
without it, the cover is greedy. The front keeps many sets at once, and handles at most 63.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from harness.matrix.records import Cover, FrontierStep

SECONDS = 20.0
"""The solver's time limit; the report says if a set was not proved the smallest by then."""

Sets = Mapping[str, AbstractSet[str]]


def smallest_cover(sets: Sets, cost: Mapping[str, float]) -> Cover:
    """Return the fewest names of `sets` whose union is the union of all; of those, the cheapest.

    Exact if SciPy is installed (HiGHS, a branch-and-bound solver of mixed-integer programs).
    Otherwise greedy: always a cover, at most H(n) times too large for sets of n elements (Chvatal,
    A greedy heuristic for the set-covering problem, 1979).
    """
    candidates = _candidates(sets, cost)
    if not candidates:
        return Cover([], 0, optimal=True, solver="nothing to cover")
    chosen, optimal = greedy_cover(candidates, cost), False
    solver = "greedy, since scipy is not installed"
    if find_spec("scipy"):
        better, optimal = exact_cover(candidates, cost)
        chosen = better if optimal or len(better) < len(chosen) else chosen
        solver = "exact (HiGHS)" if optimal else f"not proved in {SECONDS:g} s (HiGHS)"
    covers = len(frozenset[str]().union(*candidates.values()))
    return Cover(sorted(chosen), covers, optimal or len(chosen) == 1, solver)


def exact_cover(sets: Sets, cost: Mapping[str, float]) -> tuple[list[str], bool]:
    """Return the smallest cover by two integer programs, and whether it is proved the smallest.

    The first finds the smallest number, the second the cheapest cover of that number. Without a
    proof within `SECONDS`, return the best cover that the solver found, or all sets.
    """
    from scipy.optimize import LinearConstraint, milp  # slow to import, and optional

    names = list(sets)
    elements = sorted(frozenset[str]().union(*sets.values()))
    covers = np.array([[float(e in sets[name]) for name in names] for e in elements])
    covered = LinearConstraint(covers, lb=1.0)

    def solve(weights: Sequence[float], at_most: int) -> tuple[list[str], bool]:
        result = milp(
            np.asarray(weights),
            integrality=np.ones(len(names)),
            bounds=(0, 1),
            constraints=[covered, LinearConstraint(np.ones((1, len(names))), ub=float(at_most))],
            options={"time_limit": SECONDS, "mip_rel_gap": 0.0},
        )
        chosen = np.ones(len(names)) if result.x is None else result.x
        return [name for name, share in zip(names, chosen, strict=True) if share > 0.5], (
            result.status == 0
        )

    fewest, proved = solve([1.0] * len(names), len(names))
    if not proved:
        return fewest, False
    cheapest, _ = solve([cost[name] for name in names], len(fewest))
    return (cheapest if len(cheapest) == len(fewest) else fewest), True


def greedy_cover(sets: Sets, cost: Mapping[str, float]) -> list[str]:
    """Return a cover: take the cheapest set that covers most of the rest, until all is covered."""
    rest = set[str]().union(*sets.values())
    chosen = []
    while rest:
        best = min(sets, key=lambda name: (-len(sets[name] & rest), cost[name], name))
        chosen.append(best)
        rest -= sets[best]
    return chosen


def _candidates(sets: Sets, cost: Mapping[str, float]) -> dict[str, frozenset[str]]:
    """Return the sets worth choosing: not empty, and not inside another that costs no more."""
    candidates: dict[str, frozenset[str]] = {}
    for name in sorted(sets, key=lambda name: (cost[name], -len(sets[name]), name)):
        if sets[name] and not any(sets[name] <= other for other in candidates.values()):
            candidates[name] = frozenset(sets[name])
    return candidates


# ----- The Pareto front -----


@dataclass(frozen=True)
class _States:
    """Sets of diagnostics, one in each row."""

    caught: NDArray[np.uint64]
    """(states, words): a bit for each break that the set catches."""
    passes: NDArray[np.float64]
    members: NDArray[np.int64]
    """A bit for each diagnostic in the set."""

    def count(self) -> NDArray[np.int64]:
        """Return the number of breaks that each set catches, shape (states,)."""
        return _count(self.caught)

    def at(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> _States:
        return _States(self.caught[rows], self.passes[rows], self.members[rows])

    def join(self, other: _States) -> _States:
        return _States(
            np.concatenate([self.caught, other.caught]),
            np.concatenate([self.passes, other.passes]),
            np.concatenate([self.members, other.members]),
        )


def frontier(
    caught: Mapping[str, AbstractSet[str]], passes: Mapping[str, float], breaks: int
) -> list[FrontierStep]:
    """Return every set that catches more than any set that costs no more, cheapest first.

    `caught` has the breaks that each diagnostic catches, `passes` its cost in forward passes over
    all probes; `breaks` is the total number of breaks. Costs are summed: what two diagnostics
    could share (one backward pass that both look at) is not subtracted.

    The result is exact (branch and bound). Each diagnostic in turn extends every set; a set is
    dropped if even with all later diagnostics it would catch no more than a set that costs no
    more already catches.
    """
    names = sorted((n for n in caught if caught[n]), key=lambda name: (passes[name], name))
    masks = _masks([caught[name] for name in names])
    states = _States(np.zeros((1, masks.shape[1]), np.uint64), np.zeros(1), np.zeros(1, np.int64))
    front = states
    for index, name in enumerate(names):
        larger = _States(
            states.caught | masks[index], states.passes + passes[name], states.members | 1 << index
        )
        states = states.join(larger)
        front = _front(front.join(larger))
        still = np.bitwise_or.reduce(masks[index + 1 :], axis=0)
        reached = front.count()[np.searchsorted(front.passes, states.passes, side="right") - 1]
        states = states.at(_count(states.caught | still) > reached)
    return [
        FrontierStep(
            passes=float(cost),
            caught=int(count),
            share=int(count) / breaks,
            diagnostics=[name for i, name in enumerate(names) if int(members) >> i & 1],
        )
        for cost, count, members in zip(front.passes, front.count(), front.members, strict=True)
        if count
    ]


def _front(states: _States) -> _States:
    """Return the rows that catch more than any row that costs no more; of equals the smallest."""
    count = states.count()
    order = np.lexsort((states.members, np.bitwise_count(states.members), -count, states.passes))
    best_before = np.maximum.accumulate(np.concatenate([[-1], count[order][:-1]]))
    return states.at(order[count[order] > best_before])


def _masks(sets: Sequence[AbstractSet[str]]) -> NDArray[np.uint64]:
    """Return an array of shape (sets, words): a bit for each element of their union."""
    elements = {name: i for i, name in enumerate(sorted(frozenset[str]().union(*sets)))}
    masks = np.zeros((len(sets), len(elements) // 64 + 1), np.uint64)
    for row, members in zip(masks, sets, strict=True):
        for name in members:
            word, bit = divmod(elements[name], 64)
            row[word] |= np.uint64(1 << bit)
    return masks


def _count(masks: NDArray[np.uint64]) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = np.bitwise_count(masks).sum(axis=1, dtype=np.int64)
    return counts
