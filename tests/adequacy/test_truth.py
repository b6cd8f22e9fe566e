"""The truth: it accepts minigrad as it is, and every other choice at a kink, and nothing else."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import minigrad
from minigrad import elementwise
from tests.adequacy.__main__ import DOCUMENT
from tests.adequacy.cases import all_cases
from tests.adequacy.truth import Array, Case, answer, wrong_cases


def test_minigrad_is_right_in_every_case() -> None:
    cases = all_cases()
    assert len({case.name for case in cases}) == len(cases)
    assert f"in one of {len(cases)} cases" in DOCUMENT.read_text(encoding="utf-8")
    assert wrong_cases(map(answer, cases)) == []


Slope = Callable[[Array], Array]


@pytest.fixture
def relu_with() -> Iterator[Callable[[Slope], None]]:
    """Give `relu` another slope, as a function of its operand."""
    original = elementwise.relu.__code__

    def replace(slope: Slope) -> None:
        def relu(a: Array, _slope: Slope = slope) -> object:
            return np.maximum(a, 0), lambda g: (g * _slope(a),)

        elementwise.relu.__code__ = relu.__code__
        elementwise.relu.__defaults__ = relu.__defaults__

    yield replace
    elementwise.relu.__code__, elementwise.relu.__defaults__ = original, None


SMOOTH = Case("smooth", lambda a: a.relu(), (np.array([-1.0, 2.0]),))
KINK = Case("kink", lambda a: a.relu(), (np.array([-1.0, 0.0, 2.0]),), kink=True)


@pytest.mark.parametrize(
    ("slope", "wrong"),
    [
        (lambda a: a >= 0, []),
        (lambda a: np.where(a == 0, 0.5, a > 0), []),
        (lambda a: np.where(a == 0, 1.5, a > 0), ["kink"]),
        (lambda a: np.where(a == 0, -0.5, a > 0), ["kink"]),
        (lambda a: np.where(a == 0, np.nan, a > 0), ["kink"]),
        (lambda a: 1.00001 * (a > 0), ["smooth"]),  # near a kink slopes need not be as exact
        (lambda a: 2.0 * (a > 0), ["smooth", "kink"]),
        (lambda a: np.ones((2, *a.shape)), ["smooth", "kink"]),
        (lambda a: a[1:, None], ["smooth", "kink"]),
        (lambda a: 1 / 0, ["smooth", "kink"]),  # noqa: ARG005
    ],
)
def test_a_slope_is_wrong_unless_it_is_that_of_points_nearby(
    relu_with: Callable[[Slope], None], slope: Slope, wrong: list[str]
) -> None:
    answers = [answer(case) for case in (SMOOTH, KINK)]
    relu_with(slope)
    assert wrong_cases(answers) == wrong


def test_a_leaf_without_a_gradient_counts_as_zeros() -> None:
    case = Case("detached", lambda a, b: a + b.detach(), (np.ones(2), np.ones(2)))
    assert wrong_cases([answer(case)]) == ["detached"]
    unused = Case("unused", lambda a, b: a * 1.0, (np.ones(2), np.ones(2)))  # noqa: ARG005
    assert wrong_cases([answer(unused)]) == []
    assert minigrad.Tensor(1.0).grad is None
