"""The pool: only bugs that the committed matrix proves can be found, and the par."""

import tomllib
from collections.abc import Collection, Mapping, Sequence
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.diagnostics import DIAGNOSTICS
from harness.learn.clues import (
    LOG,
    SHOWN_BY_A_LOG,
    BugPool,
    Clue,
    Suspect,
    all_suspects,
    clues_for,
    pool_of,
    solvable,
)
from harness.pages.catalogue import BUNDLED
from tests.harness.bundled import CATALOGUE


@cache
def pool(level: int) -> BugPool:
    return pool_of(CATALOGUE, level)


@cache
def committed() -> dict[str, dict[str, list[str]]]:
    """The committed matrix, read without the code under test: who catches a break, and where."""
    rows = tomllib.loads((BUNDLED / "matrix.toml").read_text(encoding="utf-8"))
    return {name: row.get("caught_by", {}) for name, row in rows.items()}


def verdicts(page: str, clue: Clue) -> list[bool]:
    """What a clue says of a break: an alarm or not, for each diagnostic that it shows."""
    names = SHOWN_BY_A_LOG if clue.kind == LOG else (clue.kind,)
    return [clue.probe in committed()[page].get(name, []) for name in names]


@pytest.mark.parametrize("level", [1, pytest.param(2, marks=pytest.mark.slow), 3])
def test_the_clues_of_the_par_tell_the_family_of_each_bug_of_a_pool(level: int) -> None:
    level_pool = pool(level)
    assert len({suspect.family for suspect in level_pool.suspects}) >= 3
    libraries = {item.name for item in DIAGNOSTICS if item.library}
    for suspect in level_pool.suspects:
        sequence = level_pool.par(suspect)
        assert not {clue.kind for clue in sequence} & libraries
        alike = [
            other
            for other in level_pool.suspects
            if all(verdicts(other.id, clue) == verdicts(suspect.id, clue) for clue in sequence)
        ]
        assert suspect in alike
        assert {other.family for other in alike} == {suspect.family}, suspect.id


@pytest.mark.parametrize("level", [1, *(pytest.param(k, marks=pytest.mark.slow) for k in (2, 3))])
def test_only_bugs_that_cannot_be_told_are_left_out(level: int) -> None:
    level_pool = pool(level)
    clues = [clue for clue in level_pool.clues.values() if clue.shows]
    ids = {suspect.id for suspect in level_pool.suspects}
    every = [suspect for suspect in all_suspects(CATALOGUE) if suspect.level == level]
    seen = {item.id: [verdicts(item.id, clue) for clue in clues] for item in every}
    for item in (suspect for suspect in every if suspect.id not in ids):
        alike = {other.family for other in every if seen[other.id] == seen[item.id]}
        assert len(alike) > 1 or not any(map(any, seen[item.id])), item.id
    assert len(ids) < len(every)


def test_the_same_seed_hides_the_same_bug() -> None:
    one, again = pool(1), pool_of(CATALOGUE, 1)
    assert again.digest == one.digest
    firsts = [one.choose(seed).id for seed in range(40)]
    assert firsts == [again.choose(seed).id for seed in range(40)]
    assert len(set(firsts)) > 15
    fewer = BugPool(one.suspects[1:], one.clues)
    assert fewer.digest != one.digest
    others = [fewer.choose(seed).id for seed in range(40)]
    changed = [k for k in range(40) if others[k] != firsts[k]]
    assert all(firsts[k] == one.suspects[0].id for k in changed)


def test_a_clue_costs_what_its_diagnostic_says_for_every_loss() -> None:
    clues = clues_for(CATALOGUE.shared_probes)
    assert clues["gradcheck:add-new-axis"].passes == 2 * (2 * (3 + 12) + 4)
    assert clues["shape:add-new-axis"].passes == 2 * 3
    assert clues["training-log:adam"].passes == 3
    assert clues["log:adam"].passes == clues["grads:add-new-axis"].passes == 2 * 3
    assert "log:add-new-axis" not in clues
    assert "grads:adam" not in clues
    assert "gradcheck:adam" not in clues


# ----- Small pools -----


def suspect(family: str, caught: Collection[str]) -> Suspect:
    pairs = frozenset((probe, "check") for probe in caught)
    return Suspect(f"{family}-{''.join(sorted(caught))}", family, 1, pairs)


def clue(probe: str, passes: float) -> Clue:
    return Clue("check", probe, passes, frozenset([(probe, "check")]))


def test_bugs_that_look_like_another_family_or_like_none_are_left_out() -> None:
    a, b, c = suspect("f", "x"), suspect("g", "x"), suspect("g", "xy")
    unseen, twin, d = suspect("f", ""), suspect("g", "xy"), suspect("f", "y")
    clues = [clue("x", 1), clue("y", 1)]
    assert solvable([a, b, c, twin, unseen, d], clues) == [c, twin, d]
    assert solvable([a, c, d], clues[:1]) == []
    assert solvable([c, twin], clues) == []  # one family: there is nothing to find


def test_the_par_takes_what_rules_out_most_per_pass() -> None:
    bug = suspect("f", "")
    rivals = [suspect("g", seen) for seen in ("ac", "acz", "bc", "bz")]  # a, b, c rule out 2, 2, 3
    by_cost = {"c": 5, "a": 4, "b": 4}  # `a` and `b` together would be cheaper than `c` and `b`
    assert par(bug, rivals, by_cost) == ["c", "b"]
    assert par(bug, rivals, {**by_cost, "c": 7}) == ["a", "b"]
    assert par(bug, rivals, {"z": 0.1, **by_cost}) == ["z", "c"]
    alike = suspect("f", "c")  # of the same family: it need not be ruled out
    assert par(bug, [alike, suspect("g", "a")], by_cost) == ["a"]


def par(bug: Suspect, rivals: Sequence[Suspect], costs: Mapping[str, float]) -> list[str]:
    """The probes of the par, with a clue for each cost."""
    clues = {name: clue(name, cost) for name, cost in costs.items()}
    return [item.probe for item in BugPool((bug, *rivals), clues).par(bug)]


probes = st.sets(st.sampled_from("abcde"))
suspects = st.lists(st.tuples(st.sampled_from("fgh"), probes), min_size=1, max_size=7)


@given(suspects, st.lists(st.integers(1, 9), min_size=5, max_size=5))
def test_the_par_tells_the_family(drawn: Sequence[tuple[str, set[str]]], costs: list[int]) -> None:
    clues = [clue(probe, cost) for probe, cost in zip("abcde", costs, strict=True)]
    small = solvable([suspect(*item) for item in drawn], clues)
    for item in small:
        chosen = BugPool(tuple(small), {item.name: item for item in clues}).par(item)
        assert tells(chosen, item, small)
        assert len(set(chosen)) == len(chosen)


def tells(clues: Sequence[Clue], item: Suspect, small: Sequence[Suspect]) -> bool:
    """Whether the clues tell the family by trying all of them on every bug."""
    names = [each.probe for each in clues]

    def answers(one: Suspect) -> list[bool]:
        return [(name, "check") in one.caught for name in names]

    return {o.family for o in small if answers(o) == answers(item)} == {item.family}
