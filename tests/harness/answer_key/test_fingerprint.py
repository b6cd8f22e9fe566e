"""The fingerprint: planted ones are named, unrelated arrays have none, nothing false is said."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from harness.answer_key import fingerprint as answer_key
from harness.answer_key.naming import region_named
from harness.core.message import verbatim
from harness.core.run import NumericArray
from tests.examples import examples
from tests.harness.answer_key.reading import read

SIZES = {"n": 16, "the length of axis 1 of b": 5, "the length of axis 0 of c": 7, "axis 1 of c": 7}


def fingerprint(
    broken: NumericArray,
    correct: NumericArray,
    *,
    sizes: Mapping[str, int] = {},
    constants: Collection[float] = (),
) -> str | None:
    """The fingerprint in English."""
    named = {verbatim(name): size for name, size in sizes.items()}
    result = answer_key.fingerprint(broken, correct, sizes=named, constants=constants)
    return None if result is None else str(result)


def normal(shape: tuple[int, ...], seed: int = 0) -> NumericArray:
    return np.random.default_rng(seed).standard_normal(shape)


def arrays(dims: tuple[int, int] = (1, 3), sides: tuple[int, int] = (3, 5)) -> st.SearchStrategy:
    """Distinct random numbers: a planted change cannot occur by coincidence."""
    shapes = npst.array_shapes(
        min_dims=dims[0], max_dims=dims[1], min_side=sides[0], max_side=sides[1]
    )
    return st.builds(normal, shapes, st.integers(0, 10**6))


def evaluated(code: str, a: NumericArray, b: NumericArray) -> NumericArray:
    """The value of an expression that the answer key wrote about two arrays."""
    return np.asarray(eval(code, {"a": a, "b": b}))  # noqa: S307 - it is what a reader would type


def noisy(array: NumericArray) -> NumericArray:
    """The same up to rounding."""
    return np.nextafter(array, np.inf)


# ----- Planted: one rule for all entries -----


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (np.zeros_like, "all zero"),
        (lambda x: x * 1e-17, "all zero up to rounding"),
        (lambda x: x * np.nan, "all NaN"),
        (lambda x: x * np.inf, "all infinite"),
        (lambda x: -x, "the sign is flipped"),
        (lambda x: x * 3, "3 times the correct one"),
        (lambda x: x * -0.5, "-1/2 times the correct one"),
        (lambda x: x * 0.37, "0.37 times the correct one"),
        (lambda x: x * 32, "32 times the correct one"),
        (lambda x: x * 64, "64 times the correct one; 64 is 2 to the power of 6"),
        (lambda x: x * 1024, "1024 times the correct one; 1024 is 2 to the power of 10"),
        (lambda x: x / 128, "1/128 times the correct one; 128 is 2 to the power of 7"),
        (lambda x: x * 16, "16 times the correct one; 16 is n"),
        (lambda x: x / 5, "1/5 times the correct one; 5 is the length of axis 1 of b"),
        (
            lambda x: x * 5**0.5,
            "2.236 times the correct one; that is the square root of 5, the length of axis 1 of b",
        ),
        (
            lambda x: x / 5**0.5,
            "0.4472 times the correct one; that is 1 over the square root of 5, "
            "the length of axis 1 of b",
        ),
        (lambda x: x + 0.25, "the correct one plus 0.25"),
        (lambda x: x - 3, "the correct one plus -3"),
        (lambda x: x.astype(np.float32).astype(float), "the correct one rounded to float32"),
        (lambda x: x.astype(np.float16).astype(float), "the correct one rounded to float16"),
        (lambda x: x.astype(np.float32), "the same numbers, as float32"),
        (lambda x: x * 0 + 2, "2 in every entry"),
    ],
)
@examples(25)
@given(correct=arrays())
def test_a_rule_for_all_entries_is_named(
    rule: Callable[[NumericArray], NumericArray], sentence: str, correct: NumericArray
) -> None:
    assert fingerprint(rule(correct), correct, sizes=SIZES) == sentence


@given(arrays())
def test_truncation_is_named(correct: NumericArray) -> None:
    correct = 100 * correct
    assume((np.abs(correct) > 1).any())
    expected = "the correct one truncated to whole numbers"
    assert fingerprint(np.trunc(correct), correct) == expected
    assert fingerprint(correct.astype(int), correct) == expected


def test_what_was_computed_in_float32_has_its_digits_and_no_more() -> None:
    one, other = normal((6, 5)), normal((5, 4), 1)
    low = (one.astype(np.float32) @ other.astype(np.float32)).astype(float)
    expected = "every entry is a float32 number, correct to its precision"
    assert fingerprint(low, one @ other) == expected


@given(arrays(), st.sampled_from([np.float32, np.float64]), st.integers(2, 9))
def test_rounding_does_not_hide_a_rule(correct: NumericArray, dtype: Any, factor: int) -> None:
    correct = correct.astype(dtype)
    broken = noisy(factor * correct)
    assert fingerprint(broken, correct) == f"{factor} times the correct one"


# ----- Planted: the numbers in other places -----


@given(arrays(), st.data())
def test_a_reversed_axis_is_named(correct: NumericArray, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, correct.ndim - 1))
    expected = f"the correct one reversed along axis {axis}"
    assert fingerprint(np.flip(correct, axis), correct) == expected


@given(arrays(dims=(2, 2)))
def test_a_kernel_turned_around_is_reversed_along_both_axes(correct: NumericArray) -> None:
    assert fingerprint(np.flip(correct), correct) == "the correct one reversed along axes 0 and 1"


@given(arrays(), st.data())
def test_a_shift_is_named(correct: NumericArray, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, correct.ndim - 1))
    by = data.draw(st.sampled_from([-1, 1]))
    expected = f"the correct one shifted by {by} along axis {axis}"
    assert fingerprint(np.roll(correct, by, axis), correct) == expected


@given(arrays(dims=(2, 2)), st.data())
def test_a_permutation_of_rows_or_columns_is_named(
    correct: NumericArray, data: st.DataObject
) -> None:
    axis = data.draw(st.integers(0, 1))
    order = data.draw(st.permutations(range(correct.shape[axis])))
    name = ("rows", "columns")[axis]
    result = fingerprint(correct.take(order, axis), correct)
    listed = f"{', '.join(map(str, order[:-1]))} and {order[-1]}"
    simpler = order == sorted(order) or (result and re.search("reversed|shifted", result))
    assert simpler or result == f"{name} {listed} of the correct one, in this order"


@given(arrays(dims=(2, 2)), st.data())
def test_a_repeated_row_or_column_is_named(correct: NumericArray, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, 1))
    i = data.draw(st.integers(0, correct.shape[axis] - 1))
    broken = correct.take([i] * correct.shape[axis], axis)
    assert fingerprint(broken, correct) == (
        f"{('row', 'column')[axis]} {i} of the correct one, repeated"
    )


@given(arrays(dims=(2, 3)), st.data())
def test_permuted_axes_are_named(correct: NumericArray, data: st.DataObject) -> None:
    axes = data.draw(st.permutations(range(correct.ndim)).filter(lambda p: p != sorted(p)))
    how = "transposed" if correct.ndim == 2 else f"with its axes in the order {tuple(axes)}"
    assert fingerprint(correct.transpose(axes), correct) == f"the correct one {how}"


@given(arrays(dims=(2, 2)))
def test_a_factor_for_each_row_is_named(correct: NumericArray) -> None:
    factors = np.arange(2, 2 + len(correct))[:, None]
    rows = range(len(correct))
    expected = "rows {} and {} of the correct one times {} and {}".format(
        *(
            text
            for values in (rows, factors.ravel())
            for text in (", ".join(map(str, values[:-1])), values[-1])
        )
    )
    assert fingerprint(factors * correct, correct) == expected


@given(arrays(dims=(2, 2)), st.sampled_from([("sum", np.sum), ("mean", np.mean)]))
def test_a_reduction_spread_again_is_named(
    correct: NumericArray, how: tuple[str, Callable[..., NumericArray]]
) -> None:
    broken = np.zeros_like(correct) + how[1](correct, axis=1, keepdims=True)
    expected = f"the {how[0]} of the correct one over axis 1, repeated along it"
    assert fingerprint(broken, correct) == expected


def test_a_transpose_that_was_made_by_reshape_is_another_order() -> None:
    correct = normal((3, 4))
    broken = correct.T.reshape(3, 4)
    assert fingerprint(broken, correct) == "the numbers of the correct one in another order"


# ----- Planted: another shape -----


@given(arrays(), st.data())
def test_an_axis_of_length_one_is_counted(correct: NumericArray, data: st.DataObject) -> None:
    broken = np.expand_dims(correct, data.draw(st.integers(0, correct.ndim)))
    assert fingerprint(broken, correct) == "the same numbers, with an extra axis of length 1"
    assert fingerprint(correct, broken) == "the same numbers, with an axis of length 1 missing"


@given(arrays(dims=(2, 3)), st.booleans(), st.data())
def test_a_missing_sum_or_mean_is_named(
    broken: NumericArray, keepdims: bool, data: st.DataObject
) -> None:
    axis = data.draw(st.integers(0, broken.ndim - 1))
    # An axis that is kept says which one it was; else another of its length might have been it.
    assume(keepdims or len(set(broken.shape)) == broken.ndim)
    for correct, verb, noun in (
        (broken.sum(axis, keepdims=keepdims), "summed", "sum"),
        (broken.mean(axis, keepdims=keepdims), "averaged", "mean"),
    ):
        assert fingerprint(broken, correct) == (
            f"not {verb} over axis {axis}: its {noun} is the correct one"
        )
        assert fingerprint(correct, broken) == f"the correct one, {verb} over axis {axis}"


@given(arrays(dims=(2, 3)))
def test_slices_and_repetitions_are_named(array: NumericArray) -> None:
    first, last = array[0], array[-1]
    assume(len(set(array.shape)) == array.ndim)
    assert fingerprint(array, first) == "its first slice along axis 0 is the correct one"
    assert fingerprint(last, array) == "the last slice of the correct one along axis 0"
    repeated = np.stack([array] * 2)
    assert fingerprint(repeated, array) == "the correct one, repeated along axis 0"
    assert fingerprint(array, repeated) == "not repeated along axis 0"


def test_a_scalar_that_was_not_summed_is_named() -> None:
    broken = normal((4, 3))
    sentence = "not summed over axes 0 and 1: its sum is the correct one"
    assert fingerprint(broken, broken.sum()) == sentence


def test_the_same_numbers_in_another_shape_are_named() -> None:
    correct = normal((3, 4))
    sentence = "the same numbers in the same order, in another shape"
    assert fingerprint(correct.ravel(), correct) == sentence
    assert fingerprint(correct.reshape(4, 3), correct) == sentence
    assert fingerprint(correct.T, correct) == "the correct one transposed"
    moved = "the same numbers, with an axis of length 1 moved"
    assert fingerprint(correct[:, None], correct[None]) == moved


ROWS, COLUMNS, BLOCK = normal((4, 3)), normal((3, 5)), normal((2, 3, 5))


@pytest.mark.parametrize(
    ("broken", "correct", "code"),
    [
        (ROWS, ROWS.sum(0), "a.sum(axis=0) - b"),
        (COLUMNS, COLUMNS.sum(1, keepdims=True), "a.sum(axis=1).reshape(3, 1) - b"),
        (ROWS, ROWS.mean(), "a.mean(axis=(0, 1)) - b"),
        (ROWS.sum(0), ROWS, "a - b.sum(axis=0)"),
        (BLOCK, BLOCK[:, :, -1:], "a.take(-1, axis=2).reshape(2, 3, 1) - b"),
        (np.stack([ROWS] * 2), ROWS, "a - b"),
        (np.stack([ROWS] * 2, axis=2), ROWS, "a - b.reshape(4, 3, 1)"),
        (ROWS[0], np.stack([ROWS[0]] * 2), "a - b"),
        (ROWS[None], ROWS, "a.reshape(4, 3) - b"),
        (np.ones(1) / 3, np.ones(()) / 3, "a.reshape(()) - b"),
        (ROWS.T, ROWS, "a - b.transpose(1, 0)"),
    ],
)
def test_the_difference_of_two_shapes_is_given_as_code(
    broken: NumericArray, correct: NumericArray, code: str
) -> None:
    found = answer_key.find_explanation(broken, correct)
    assert found
    assert found.difference.format(actual="a", expected="b") == code
    np.testing.assert_allclose(evaluated(code, broken, correct), 0, atol=1e-12)


# ----- Planted: only some entries -----


@pytest.mark.parametrize(
    ("where", "region"),
    [
        ("in row 0", lambda x: np.arange(x.shape[0])[:, None] == 0),
        ("in rows 0 and 2", lambda x: np.arange(x.shape[0])[:, None] % 2 == 0),
        ("in column 3", lambda x: np.arange(x.shape[1]) == 3),
        ("on the diagonal", lambda x: np.eye(*x.shape, dtype=bool)),
        ("off the diagonal", lambda x: ~np.eye(*x.shape, dtype=bool)),
        ("above the diagonal", lambda x: ~np.tri(*x.shape, dtype=bool)),
        ("below the diagonal", lambda x: np.tri(*x.shape, k=-1, dtype=bool)),
        ("on and above the diagonal", lambda x: ~np.tri(*x.shape, k=-1, dtype=bool)),
        ("on and below the diagonal", lambda x: np.tri(*x.shape, dtype=bool)),
        ("where the correct one is negative", lambda x: x < 0),
        ("where the correct one is positive", lambda x: x > 0),
    ],
)
@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (lambda x: 0 * x, ": all zero"),
        (lambda x: np.nan * x, ": all NaN"),
        (lambda x: -x, ": the sign is flipped"),
        (lambda x: 5 * x, ": 5 times the correct one; 5 is n"),
        (lambda x: 0 * x + 1, ": 1 in every entry"),
        (np.sin, ""),
    ],
)
def test_where_it_is_wrong_and_how_are_named(where, region, rule, sentence) -> None:
    correct = normal((4, 5))
    broken = np.where(region(correct), rule(correct), correct)
    assert fingerprint(broken, correct, sizes={"n": 5}) == f"correct except {where}{sentence}"


def test_a_wrong_entry_is_pointed_at_and_scattered_ones_are_counted() -> None:
    correct = normal((4, 5))
    broken = correct.copy()
    broken[1, 2] = 0
    assert fingerprint(broken, correct) == "correct except at [1, 2]: zero"
    broken[1, 2] = 7
    assert fingerprint(broken, correct) == "correct except at [1, 2]"
    broken[3, 0] = 8
    assert fingerprint(broken, correct) == "correct except at [1, 2] and [3, 0]"
    broken[2, 1], broken[0, 0] = 9, 10
    assert fingerprint(broken, correct) == "correct except in 4 of 20 entries"
    broken[2, 3] = 11
    assert fingerprint(broken, correct) == "correct except in 5 of 20 entries"
    broken[0, 2] = 12
    assert fingerprint(broken, correct) is None


def test_where_the_correct_one_is_zero_is_a_place_too() -> None:
    correct = np.maximum(normal((4, 5)), 0)
    broken = np.where(correct == 0, 1.0, correct)
    assert fingerprint(broken, correct) == (
        "correct except where the correct one is zero: 1 in every entry"
    )


@pytest.mark.parametrize("sign", [-1, 1])
def test_zero_is_neither_negative_nor_positive(sign: int) -> None:
    correct = np.array([3.0, -2.0, 0.0, 7.0, -5.0, 11.0])
    broken = np.where(np.sign(correct) == sign, 2 * correct, correct)
    word = {-1: "negative", 1: "positive"}[sign]
    expected = f"correct except where the correct one is {word}: 2 times the correct one"
    assert fingerprint(broken, correct) == expected


def test_a_region_without_a_pattern_is_not_described() -> None:
    mask = np.array([[True, False, True], [False, True, True]])
    name, is_informative = region_named(mask, np.ones((2, 3)))
    assert (str(name), is_informative) == ("in 4 of 6 entries", False)


# ----- What is too special -----


@pytest.mark.parametrize(
    ("broken", "correct", "sentence"),
    [
        (0.0, 2.0, "zero"),
        (np.nan, 2.0, "NaN"),
        (np.inf, 2.0, "infinite"),
        (-2.0, 2.0, "the sign is flipped"),
        (6.0, 2.0, None),
        (74.0, 2.0, None),
        (2.0, 6.0, None),
        (1e-17, 2.0, "zero up to rounding"),
        (2.5, 2.0, None),
        (3.0, 0.0, None),
        (1.0, 1.7, None),
        (2.0, np.nan, None),
        (5, 5.0, "the same numbers, as int64"),
    ],
)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_of_a_single_number_only_the_remarkable_is_said(broken, correct, sentence, shape) -> None:
    pair = np.full(shape, broken), np.full(shape, correct)
    assert fingerprint(*pair, sizes={"n": 37}) == sentence


def test_equal_numbers_are_hardly_more_than_one() -> None:
    twos = np.full((3, 4), 2.0)
    assert fingerprint(2 * twos, twos) == "4 in every entry"
    assert fingerprint(1.3 * twos, twos) == "2.6 in every entry"
    assert fingerprint(normal((3, 4)), twos) is None


@pytest.mark.parametrize("shapes", [((0,), (0,)), ((0, 3), (3,)), ((3,), (0,)), ((2, 0), (0, 2))])
def test_of_nothing_nothing_is_said(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    assert fingerprint(np.zeros(shapes[0]), np.zeros(shapes[1])) is None


@given(arrays(dims=(0, 3), sides=(1, 5)))
def test_of_what_is_right_nothing_is_said(correct: NumericArray) -> None:
    assert fingerprint(correct, correct) is None
    assert fingerprint(noisy(correct), correct) is None


@given(arrays(dims=(1, 4), sides=(2, 5)), arrays(dims=(1, 4), sides=(2, 5)), st.booleans())
def test_unrelated_arrays_have_no_fingerprint(
    correct: NumericArray, other: NumericArray, same_shape: bool
) -> None:
    shape = correct.shape if same_shape else other.shape
    assert fingerprint(normal(shape, 10**7), correct, sizes=SIZES) is None


def test_nan_in_both_does_not_hide_a_rule() -> None:
    correct = normal((3, 4))
    correct[1, 1] = np.nan
    correct[2, 0] = np.inf
    assert fingerprint(3 * correct, correct) == "3 times the correct one"
    broken = correct.copy()
    broken[0] = np.nan
    assert fingerprint(broken, correct) == "correct except in row 0: all NaN"


# ----- What may be a coincidence -----


@given(arrays(), st.data())
def test_a_length_is_named_only_if_nothing_else_gives_its_number(
    correct: NumericArray, data: st.DataObject
) -> None:
    n = data.draw(st.integers(2, 9))
    broken = data.draw(st.sampled_from([n, 1 / n])) * correct
    plain = f"{n if abs(broken.flat[0]) > abs(correct.flat[0]) else f'1/{n}'} times the correct one"
    named = f"{plain}; {n} is the length"
    alone = named if n > 2 and n not in (9, 10) else plain
    assert fingerprint(broken, correct, sizes={"the length": n}) == alone
    for sizes, constants in (
        ({"the length": n, "another": n}, ()),
        ({"the length": n, "another": n * n}, ()),
        ({"the length": n, "one": 2, "other": n}, ()),
        ({"the length": n * n}, ()),  # the number is its square root
        ({"the length": n}, (float(n),)),
        ({"the length": n}, (0.25, n / 4)),
        ({"the length": n}, (1 / (n + 1),)),  # as 0.9 is 9 times 0.1
        ({"the length": n}, (n - 1.0,)),  # as 2 x + x is 3 times x
    ):
        assert fingerprint(broken, correct, sizes=sizes, constants=constants) == plain


def test_nine_is_no_length_where_a_rate_of_a_tenth_explains_it() -> None:
    correct = normal((4, 3))
    for sizes in ({"the length": 3}, {"the length": 9}):
        assert fingerprint(9 * correct, correct, sizes=sizes) == "9 times the correct one"


@given(arrays(dims=(1, 2)), st.sampled_from([1e-13, 1e-9, 1e-7, 1e-5]), st.integers(0, 99))
def test_of_a_small_error_no_cause_is_named(correct: NumericArray, size: float, seed: int) -> None:
    broken = correct * (1 + size * normal(correct.shape, seed))
    sentence = fingerprint(broken, correct)
    assert sentence is None or sentence.startswith("correct except"), sentence


@pytest.mark.parametrize("factor", [1 + 1e-9, 1 - 1e-6, 1.00003, 2.00001, -1.00001])
def test_a_factor_is_printed_with_enough_digits(factor: float) -> None:
    correct = normal((3, 4))
    sentence = fingerprint(factor * correct, correct)
    assert sentence is not None
    number, _, rest = sentence.partition(" ")
    assert rest == "times the correct one"
    assert float(number) == pytest.approx(factor, rel=abs(abs(factor) - round(abs(factor))) / 2)


@given(arrays(dims=(1, 2)), st.integers(-60, -30))
def test_what_is_left_of_a_sum_of_zero_has_no_multiple(broken: NumericArray, power: int) -> None:
    """Like these, residues are small multiples of one number."""
    residue = np.round(3 * broken) * 2.0 ** (power - 10)
    assume(residue.any())
    sentence = fingerprint(np.round(3 * broken), residue)
    assert sentence is None or "times" not in sentence, sentence


@pytest.mark.parametrize(
    ("broken", "correct", "sentence"),
    [
        # One number everywhere: any rule fits it.
        ([3.0, 3.0, 3.0], [1.0, 1.0, 1.0], "3 in every entry"),
        ([1.0, 1.0], [2.0, 2.0], "1 in every entry"),
        ([2.0, 0.0, 0.0], [1.0, 0.0, 0.0], None),
        ([0.3, 0.0, 0.0], [0.7, 0.0, 0.0], None),
        # A common number may follow from the others by chance.
        ([1.0, 1.0, 1.0], [0.2, 0.3, 0.5], "1 in every entry"),
        ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0], "1 in every entry"),
        ([0.5, 0.5], [0.25, 0.75], "0.5 in every entry"),
        ([0.25, 0.25], [0.125, 0.375], "0.25 in every entry"),
        # Rows of equal numbers have a factor each, whatever the cause.
        ([[1.0, 1.0], [9.0, 9.0]], [[5.0, 5.0], [5.0, 5.0]], None),
        # Two rules fit.
        ([[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]], None),
        ([[5.0, 5.0], [7.0, 7.0]], [[5.0, 0.0], [7.0, 0.0]], "correct except in column 1"),
        (np.ones((3, 3)), [3.0, 3.0, 3.0], None),
        (np.ones((2, 3, 3)), np.full((2, 3), 3.0), None),
        (np.ones((3, 4)), np.ones((4, 3)), "the same numbers in the same order, in another shape"),
        ([[1.0, -1.0], [2.0, -2.0]], [0.0, 0.0], None),
        ([[1.0, 2.0], [2.0, 4.0]], [3.0, 6.0], None),
        # If all right entries are zero, or none is right, no place is named.
        ([[0.9, 0.4, 0.0]], [[0.1, 0.2, 0.0]], None),
        ([[0.9, 0.0], [0.4, 0.0]], [[0.1, 0.0], [0.2, 0.0]], None),
        ([0.9, 0.4, 0.0, 0.0], [0.1, 0.2, 0.0, 0.0], None),
        # Only two numbers in another order.
        ([0.0, 1.0, 0.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.0, 0.0], None),
        # Whole numbers are float32 numbers, but not because of a cast.
        ([1.0, 2.0, 3.0, 5.0], [1 + 1e-7, 2 - 1e-7, 3 + 2e-7, 5.0], None),
        ([1.0, 2.0, 3.0, 5.0], [1 + 1e-7, 2 + 2e-7, 3 + 2e-7, 5.0], None),
        ([33.0, 63.0, 41.0], [33 + 1e-4, 63 - 1e-4, 41 + 2e-4], None),
        # Not zero, but small.
        ([1e-9, 2e-9], [1e9, 1e9], "all zero up to rounding"),
    ],
)
def test_a_rule_that_fits_by_chance_is_not_named(broken, correct, sentence) -> None:
    assert fingerprint(np.array(broken), np.array(correct), sizes={"n": 3}) == sentence


# ----- Nothing false -----

WILD = npst.arrays(
    npst.boolean_dtypes()
    | npst.integer_dtypes()
    | npst.unsigned_integer_dtypes()
    | npst.floating_dtypes()
    | npst.complex_number_dtypes(),
    npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)
"""Anything at all, in any byte order: NaN, infinities, integers at their limits."""


@examples(300)
@given(WILD, WILD)
@example(np.zeros((1,) * 9), np.ones((2,) * 9))
@example(np.array([1e308, -1e308]), np.array([1e-308, 5e-324]))
@example(np.array([2**63], np.uint64), np.array([-1], np.int64))
@example(normal((4, 3)) + 1j, normal((4, 3)))
@example(normal((4, 3)), normal((4, 3)) + 1j)
def test_it_never_raises(broken: NumericArray, correct: NumericArray) -> None:
    fingerprint(broken, correct, sizes={"n": 0, "axis 0 of a": 10**30, "": 1})
    fingerprint(correct.copy(), correct)


FEW = npst.arrays(
    np.float64,
    npst.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=3),
    elements=st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0, 4.0, np.nan, np.inf]),
)
"""Few numbers, few entries: everything comes about by accident, and sentences compete."""


@examples(1000)
@given(FEW, FEW, st.booleans())
@example(np.array([[np.nan, -1.0]] * 2), np.full((2, 2), -2.0), True)
def test_a_sentence_read_literally_gives_the_broken_array(
    broken: NumericArray, correct: NumericArray, same_shape: bool
) -> None:
    if same_shape:
        broken = np.resize(broken, correct.shape)
    found = answer_key.find_explanation(broken, correct, sizes={verbatim("n"): 4})
    if found:
        sentence = str(found.sentence)
        with np.errstate(all="ignore"):
            one, other = read(sentence, broken, correct, {"n": 4})
        np.testing.assert_allclose(one, other, rtol=1e-3, strict=True, err_msg=sentence)
        assert bool(found.difference) == (broken.shape != correct.shape)
    if found and found.difference:
        code = found.difference.format(actual="a", expected="b")
        with np.errstate(all="ignore"):
            computed = evaluated(code, broken, correct)
            difference = found.actual - found.expected
        np.testing.assert_array_equal(computed, difference, strict=True, err_msg=code)


# ----- Shifts by one place -----

EVEN = np.array([0.8, 1.6, 2.4, 3.2])


@pytest.mark.parametrize(
    ("actual", "sentence"),
    [
        # Evenly spaced numbers: a shift also is the addition of a number.
        ([0.0, 0.8, 1.6, 2.4], "shifted by 1 along axis 0, and filled with zeros"),
        ([1.6, 2.4, 3.2, 0.0], "shifted by -1 along axis 0, and filled with zeros"),
        ([0.8, 0.8, 1.6, 2.4], "shifted by 1 along axis 0, and its end repeated"),
        ([3.2, 0.8, 1.6, 2.4], "shifted by 1 along axis 0"),
        # Near misses.
        ([0.1, 0.9, 1.7, 2.5], "plus -0.7"),
        ([0.0, 0.8, 1.6, 2.4001], None),
    ],
)
def test_a_shift_by_one_place_is_simpler_than_a_number_that_is_added(
    actual: list[float], sentence: str | None
) -> None:
    found = fingerprint(np.array(actual), EVEN)
    if sentence is None:
        assert found is None or "shifted" not in str(found)
    else:
        assert str(found) == f"the correct one {sentence}"


def test_equal_slices_are_not_shifted() -> None:
    found = fingerprint(np.array([0.0, 2.0, 2.0, 2.0]), np.full(4, 2.0))
    assert found is None or "shifted" not in str(found)


def test_a_shift_that_a_roll_explains_is_called_so() -> None:
    found = fingerprint(np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 0.0]))
    assert str(found) == "the correct one shifted by 1 along axis 0"
