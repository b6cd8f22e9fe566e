"""Comparisons, and selection by them."""

import operator
from typing import Any

import numpy as np
import pytest

import minigrad
from minigrad import Tensor
from tests.minigrad.against_torch import Program

COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge]
VALUES = np.array([0.1, 2.0, np.nan], np.float32)


@pytest.mark.parametrize("compare", COMPARISONS)
@pytest.mark.parametrize("other", [2, 0.1, np.float32(0.1), np.float64(0.1), np.array([0.1, 2, 2])])
def test_a_comparison_gives_what_numpy_gives_on_either_side(compare: Any, other: Any) -> None:
    tensor = Tensor(VALUES)
    np.testing.assert_array_equal(compare(tensor, other), compare(VALUES, other), strict=True)
    np.testing.assert_array_equal(compare(other, tensor), compare(other, VALUES), strict=True)
    if isinstance(other, np.ndarray):
        of_two = compare(tensor, Tensor(other))
        np.testing.assert_array_equal(of_two, compare(VALUES, other), strict=True)


def test_a_comparison_gives_an_array_of_booleans_even_of_scalars() -> None:
    for mask in (Tensor(1.0) > 0, Tensor(1.0).eq(Tensor(1.0)), Tensor(1.0).ne(1)):
        assert isinstance(mask, np.ndarray)
        assert (mask.dtype, mask.shape) == (np.bool_, ())


def test_equality_has_names_and_the_operator_compares_identities() -> None:
    a, same = Tensor([1.0, 2.0]), Tensor([1.0, 2.0])
    assert a.eq(same).tolist() == [True, True]
    assert a.ne(np.array([1, 3])).tolist() == [False, True]
    assert a == a
    assert a != same
    assert len({a, same, a}) == 2


def test_a_comparison_can_pick_and_choose() -> None:
    a = Tensor([-1.0, 2.0, 3.0], requires_grad=True)
    (a[a > 0].sum() + minigrad.where(a < 0, 5.0, a * a).sum()).backward()
    assert a.grad is not None
    assert a.grad.tolist() == [0.0, 5.0, 7.0]


@pytest.mark.parametrize("condition", [np.array([1, 0]), Tensor([0.5, 0.0])])
def test_a_condition_is_boolean(condition: Any) -> None:
    a = Tensor([1.0, 2.0])
    with pytest.raises(TypeError, match=r"the condition is \w+64, not boolean"):
        minigrad.where(condition, a, 0.0)
    with pytest.raises(TypeError, match=r"the condition is \w+64, not boolean"):
        a.masked_fill(condition, 0.0)


def test_a_condition_can_be_a_tensor_or_a_bool() -> None:
    a = Tensor([1.0, 2.0])
    assert minigrad.where(Tensor([True, False]), a, 0).data.tolist() == [1.0, 0.0]
    assert minigrad.where(False, a, 0).data.tolist() == [0.0, 0.0]


def test_numbers_do_not_change_the_dtype() -> None:
    a = Tensor([1.0, 2.0], dtype=np.float32)
    for chosen in (
        minigrad.where(a > 1, a, 0.0),
        minigrad.maximum(1.5, a),
        a.minimum(2),
        a.clamp(0.5, 1.5),
        a.masked_fill(a > 1, -np.inf),
    ):
        assert chosen.dtype == np.float32


CHOICES: list[Program] = [
    lambda a, mask: a[mask],
    lambda a, mask: a[mask.view(np.int8)][0],
    lambda a, mask: a.gather(0, mask.view(np.int8))[0],
    lambda a, mask: minigrad.where(mask, 0.0, a),
    lambda a, mask: a.masked_fill(mask, 0.0),
]


@pytest.mark.parametrize("choose", CHOICES)
def test_what_was_chosen_stays_chosen(choose: Program) -> None:
    def gradient(change: bool) -> Any:
        a, mask = Tensor([1.0, 2.0], requires_grad=True), np.array([False, True])
        output = choose(a, mask)
        mask ^= change
        output.sum().backward()
        return a.grad

    np.testing.assert_array_equal(gradient(change=True), gradient(change=False), strict=True)
