"""The smallest sufficient set, against every set there is."""

from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.matrix import cover
from harness.matrix.cover import greedy_cover, smallest_cover

ELEMENTS = st.frozensets(st.sampled_from("abcdefg"))
SETS = st.dictionaries(st.sampled_from([f"s{i}" for i in range(8)]), ELEMENTS, max_size=8)
COSTS = st.lists(st.integers(0, 5).map(float), min_size=8, max_size=8)


def union(sets: dict[str, frozenset[str]], names: list[str] | None = None) -> frozenset[str]:
    return frozenset().union(*(sets[name] for name in (sets if names is None else names)))


def best(sets: dict[str, frozenset[str]], cost: dict[str, float]) -> tuple[int, float]:
    """Size and cost of the cheapest of the smallest covers, by trying all."""
    for size in range(len(sets) + 1):
        spent = [
            sum(cost[name] for name in names)
            for names in combinations(sets, size)
            if union(sets, list(names)) == union(sets)
        ]
        if spent:
            return size, min(spent)
    raise AssertionError


@given(SETS, COSTS)
def test_the_exact_cover_is_the_cheapest_of_the_smallest(
    sets: dict[str, frozenset[str]], costs: list[float]
) -> None:
    cost = dict(zip([f"s{i}" for i in range(8)], costs, strict=True))
    found = smallest_cover(sets, cost)
    assert found.optimal
    assert union(sets, found.chosen) == union(sets)
    assert (len(found.chosen), sum(cost[name] for name in found.chosen)) == best(sets, cost)
    assert found.covers == len(union(sets))


@given(SETS, COSTS)
def test_greedy_covers_everything_with_no_fewer(
    sets: dict[str, frozenset[str]], costs: list[float]
) -> None:
    cost = dict(zip([f"s{i}" for i in range(8)], costs, strict=True))
    chosen = greedy_cover(sets, cost)
    assert union(sets, chosen) == union(sets)
    assert len(chosen) >= best(sets, cost)[0]


CLASSIC = {
    "greedy-first": frozenset("bcde"),
    "upper": frozenset("abc"),
    "lower": frozenset("def"),
}
"""Greedy takes the largest set first and then needs both others."""


def test_exact_beats_greedy_where_the_largest_set_misleads() -> None:
    cost = dict.fromkeys(CLASSIC, 1.0)
    assert smallest_cover(CLASSIC, cost).chosen == ["lower", "upper"]
    assert len(greedy_cover(CLASSIC, cost)) == 3


def test_of_the_fewest_it_takes_the_cheapest_and_never_more_of_cheaper_ones() -> None:
    """Many pairs of halves would do, and always three free sets."""
    halves = ["".join(half) for half in combinations("abcdef", 3)]
    sets = {name: frozenset(name) for name in [*halves, "ab", "cd", "ef"]}
    for seed in range(20):
        random = Random(seed)
        cost = {name: float(random.randint(1, 9)) if len(name) == 3 else 0.0 for name in sets}
        chosen = smallest_cover(sets, cost).chosen
        assert (len(chosen), sum(cost[name] for name in chosen)) == best(sets, cost)


def test_without_scipy_it_is_greedy_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cover, "find_spec", lambda _: None)
    found = smallest_cover(CLASSIC, dict.fromkeys(CLASSIC, 1.0))
    assert (len(found.chosen), found.optimal) == (3, False)
    assert found.solver == "greedy, since scipy is not installed"


def test_one_set_is_proved_the_smallest_even_by_greed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cover, "find_spec", lambda _: None)
    assert smallest_cover({"all": {"a", "b"}, "some": {"a"}}, {"all": 1.0, "some": 0.0}).optimal


def test_a_solver_that_runs_out_of_time_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cover, "SECONDS", 0.0)
    random = Random(0)
    sets = {
        f"s{i}": frozenset(str(e) for e in range(80) if random.random() < 0.1) for i in range(80)
    }
    cost = dict.fromkeys(sets, 1.0)
    found = smallest_cover(sets, cost)
    assert (found.optimal, found.solver) == (False, "not proved in 0 s (HiGHS)")
    assert union(sets, found.chosen) == union(sets)
    assert len(found.chosen) <= len(greedy_cover(sets, cost))


def test_nothing_to_cover_needs_nothing() -> None:
    assert smallest_cover({"empty": frozenset()}, {"empty": 1.0}).chosen == []
