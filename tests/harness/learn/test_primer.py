"""The engine of page 0: its numbers, and the three slips."""

import pytest

from harness.learn.primer import (
    ENGINE,
    FIRST,
    LINES,
    PROGRAMS,
    SLIPS,
    Slip,
    counterparts,
    results,
    rule_of_mul,
    run,
    value_at,
)
from tests.harness.bundled import CATALOGUE

MOST_LINES = 25


def test_the_engine_is_small_and_fits_sixty_columns() -> None:
    assert LINES <= MOST_LINES
    assert max(map(len, ENGINE.splitlines())) <= 58


def test_the_gradients_are_those_of_a_hand_calculation() -> None:
    passed = run(FIRST)
    assert [(node.name, node.data, node.grad) for node in passed.nodes] == [
        ("x", 3, 7),
        ("s", 9, 1),
        ("y", 12, 1),
    ]
    assert (passed["s"].sent, passed["y"].sent) == ((3, 3), (1, 1))
    assert [result.clean for result in results()] == [{"x": 7}, {"p": 5, "q": 2}, {"x": 27}]


def test_the_gradient_agrees_with_a_central_difference() -> None:
    step = 1e-3
    slope = (value_at(3 + step) - value_at(3 - step)) / (2 * step)
    assert slope == pytest.approx(run(FIRST)["x"].grad)


def test_the_first_program_shows_one_slip_and_hides_two() -> None:
    hidden = {
        result.program.formula: "".join(s.letter for s in SLIPS if result.is_hidden(s.letter))
        for result in results()
    }
    assert hidden == {"x*x + x": "bc", "p*q": "ac", "x*x*x": ""}


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip.letter)
def test_a_slip_runs_in_every_program(slip: Slip) -> None:
    """A slip that raises wherever it is executed ends every program."""
    for program in PROGRAMS:
        with pytest.raises(ZeroDivisionError):
            run(program, ENGINE.replace(slip.old, "1 / 0"))


def test_each_slip_is_a_break_on_the_track() -> None:
    assert [*CATALOGUE.page_0] == [slip.letter for slip in SLIPS]


def test_a_counterpart_is_where_minigrad_defines_it() -> None:
    places = counterparts()
    assert places["Value"].code.startswith("class Tensor(")
    assert all(f" {place.name}(" in place.code.splitlines()[0] for place in places.values())
    assert rule_of_mul() == "return unbroadcast(g * b, a.shape), unbroadcast(g * a, b.shape)"
