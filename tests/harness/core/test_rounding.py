"""Comparing arrays up to rounding, and measuring deviations above the noise."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from harness.core.rounding import agree, deviation, margin, rounding, wrong_entries
from harness.core.run import NumericArray

NUMBERS = st.floats(-1e150, 1e150, allow_subnormal=False)
ARRAYS = npst.arrays(np.float64, npst.array_shapes(min_dims=0, max_dims=3), elements=NUMBERS)


def test_a_deviation_is_relative_to_the_largest_entry() -> None:
    assert deviation(np.array([10.0, 0.1]), np.array([10.0, 0.2])) == pytest.approx(0.01)


def test_any_deviation_from_zero_is_1() -> None:
    assert deviation(np.array([1e-16, 0.0]), np.zeros(2)) == 1.0


@pytest.mark.parametrize(
    ("actual", "desired"),
    [
        (np.zeros(3), np.zeros((1, 3))),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0])),
        (np.array([1.0, 2.0]), np.array([1.0, np.inf])),
        (np.array(np.nan), np.array(np.nan)),
    ],
)
def test_another_shape_and_what_is_not_finite_deviate_infinitely(
    actual: NumericArray, desired: NumericArray
) -> None:
    assert deviation(actual, desired) == math.inf


@given(ARRAYS, st.floats(1e-12, 1e6))
def test_a_relative_error_is_measured_as_such(desired: NumericArray, error: float) -> None:
    expected = error if desired.any() else 0.0
    found = deviation(desired * (1 + error), desired)
    assert found == pytest.approx(expected, rel=1e-3)


@given(ARRAYS)
def test_nothing_deviates_from_itself(array: NumericArray) -> None:
    assert deviation(array, array) == 0.0
    assert agree(array, array)


def test_large_numbers_do_not_overflow_into_an_infinite_deviation() -> None:
    assert deviation(np.array([-1.7e308]), np.array([1.7e308])) == 2.0


def test_unsigned_integers_do_not_wrap_around() -> None:
    assert deviation(np.array([0], np.uint8), np.array([1], np.uint8)) == 1.0


def test_the_margin_counts_orders_of_magnitude() -> None:
    assert margin(0.5, 5e-10) == pytest.approx(9.0)
    assert margin(1e-9, 1e-7) == pytest.approx(-2.0)


@pytest.mark.parametrize(
    ("deviation", "noise", "expected"),
    [
        (math.inf, 1e-9, math.inf),
        (math.inf, 0.0, math.inf),
        (math.inf, math.inf, -math.inf),
        (1.0, math.inf, -math.inf),
        (0.0, 1e-9, -math.inf),
        (0.0, 0.0, -math.inf),
    ],
)
def test_the_margin_of_none_and_of_infinitely_much(
    deviation: float, noise: float, expected: float
) -> None:
    assert margin(deviation, noise) == expected


def test_an_engine_without_noise_is_given_one_rounding_of_it() -> None:
    assert margin(1.0, 0.0) == pytest.approx(-math.log10(2.2e-16), abs=0.01)


@pytest.mark.parametrize("pair", [(math.nan, 1.0), (1.0, math.nan), (-1.0, 1.0), (1.0, -1.0)])
def test_a_margin_of_what_is_no_deviation_is_refused(pair: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="cannot compare"):
        margin(*pair)


# ----- Beyond rounding -----


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_the_order_of_a_sum_is_rounding_and_a_wrong_term_is_not(dtype: Any) -> None:
    terms = np.random.default_rng(0).random((64, 50)).astype(dtype)
    forwards, backwards = sum(terms), sum(terms[::-1])
    assert isinstance(forwards, np.ndarray)
    assert isinstance(backwards, np.ndarray)
    assert (forwards != backwards).any()
    assert agree(forwards, backwards)
    assert not agree(forwards, sum(terms[2:]))


@given(st.integers(1, 3000), st.sampled_from([np.float32, np.float64]), st.integers(0, 2**32))
def test_no_order_of_a_sum_exceeds_the_rule(terms: int, dtype: Any, seed: int) -> None:
    numbers = np.random.default_rng(seed).standard_normal(terms).astype(dtype)
    size = math.fsum(np.abs(numbers).tolist())
    relative = rounding(terms, float(np.finfo(dtype).eps))
    for order in (numbers, numbers[::-1], np.sort(numbers)):
        in_turn = float(np.cumsum(order)[-1])
        assert abs(in_turn - math.fsum(numbers.tolist())) <= relative * size


@given(st.integers(1, 10_000), st.sampled_from([np.float32, np.float64]))
def test_the_rule_grows_with_the_root_of_the_elements(elements: int, dtype: Any) -> None:
    eps = float(np.finfo(dtype).eps)
    assert rounding(elements, eps) == 8 * math.sqrt(4 * max(elements, 16)) * eps
    assert rounding(elements, 0.1) == 0.01


def test_slack_and_the_size_of_terms_that_cancelled_are_accepted() -> None:
    actual, expected = np.array([1e-15, 1.0, 1e-3]), np.array([0.0, 0.0, 0.0])
    assert wrong_entries(actual, expected).all()
    assert wrong_entries(actual, expected, scale=1.0).tolist() == [False, True, True]
    slack = np.array([0.0, 1.0, 1e-4])
    assert wrong_entries(actual, expected, slack=slack).tolist() == [True, False, True]


def test_rounding_is_measured_by_the_largest_entry_and_never_by_a_wrong_one() -> None:
    right = np.array([1.0, 1e-18, 1.0])
    assert wrong_entries(np.array([1.0, 0.0, 1.5]), right).tolist() == [False, False, True]
    assert wrong_entries(np.array([1e30, 0.5, 1.0]), np.ones(3)).tolist() == [True, True, False]


def test_nan_agrees_with_nan_in_the_same_place_only() -> None:
    one, other = np.array([np.nan, 1.0]), np.array([1.0, np.nan])
    assert agree(one, one)
    assert wrong_entries(one, other).all()
    assert wrong_entries(np.array([np.inf]), np.array([-np.inf])).all()
