"""The smallest sufficient set: exact set cover, or a greedy one if SciPy is not installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from importlib.util import find_spec

from harness.matrix.records import Cover

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
    import numpy as np  # slow to import, like SciPy
    from scipy.optimize import LinearConstraint, milp

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
