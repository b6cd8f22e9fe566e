"""What effort buys, against every set of diagnostics there is."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from harness.matrix.cover import frontier

NAMES = [f"d{i}" for i in range(6)]
CAUGHT = st.fixed_dictionaries({name: st.frozensets(st.sampled_from("abcdefg")) for name in NAMES})
PASSES = st.fixed_dictionaries({name: st.integers(0, 9).map(float) for name in NAMES})


def front_by_trying_all(
    caught: dict[str, frozenset[str]], passes: dict[str, float]
) -> list[tuple[float, int]]:
    points = {
        (
            sum(passes[name] for name in names),
            len(frozenset().union(*(caught[name] for name in names))),
        )
        for size in range(len(NAMES) + 1)
        for names in combinations(NAMES, size)
    }
    front: list[tuple[float, int]] = []
    for cost, found in sorted(points, key=lambda point: (point[0], -point[1])):
        if found > (front[-1][1] if front else 0):
            front.append((cost, found))
    return front


@given(CAUGHT, PASSES)
def test_the_front_is_exact_and_every_step_is_what_it_says(
    caught: dict[str, frozenset[str]], passes: dict[str, float]
) -> None:
    steps = frontier(caught, passes, 7)
    assert [(step.passes, step.caught) for step in steps] == front_by_trying_all(caught, passes)
    for step in steps:
        assert step.passes == sum(passes[name] for name in step.diagnostics)
        found = frozenset().union(*(caught[name] for name in step.diagnostics))
        assert (step.caught, step.share) == (len(found), len(found) / 7)


def test_a_dear_diagnostic_that_adds_nothing_is_on_no_front() -> None:
    caught = {"cheap": {"a"}, "dear": {"a"}, "other": {"b"}}
    steps = frontier(caught, {"cheap": 1.0, "dear": 5.0, "other": 2.0}, 4)
    assert [step.diagnostics for step in steps] == [["cheap"], ["cheap", "other"]]
    assert [step.share for step in steps] == [0.25, 0.5]


def test_without_a_catch_the_frontier_is_empty() -> None:
    assert frontier({"blind": frozenset()}, {"blind": 1.0}, 3) == []
