"""The most that a given effort can catch: the Pareto front over sets of diagnostics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.matrix.records import FrontierStep


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
