"""Splits, batches, scaling, missing values and augmentation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import data
from tests.minigrad.modules import DTYPES, normal, public_names, rng

NAN, INF = np.nan, np.inf
HOLES = np.array([[1.0, NAN, 3.0], [4.0, 5.0, 6.0], [-INF, INF, 9.0]])
TRANSFORMS = [data.StandardScaler, data.MeanImputer]


def test_every_public_name_is_known_here() -> None:
    assert public_names(data) == {
        *("train_test_split", "group_split", "DataLoader", "worker_generators", "StandardScaler"),
        *(
            "next_symbols",
            "check_complete",
            "drop_missing",
            "MeanImputer",
            "random_flip",
            "add_noise",
        ),
    }


# ----- Splits -----


@given(st.integers(2, 50), st.floats(0.05, 0.95), st.integers(0, 99))
def test_a_split_has_each_row_once(count: int, share: float, seed: int) -> None:
    cut = round(count * share)
    if not 0 < cut < count:
        with pytest.raises(ValueError, match="in two"):
            data.train_test_split(count, share, rng=rng(seed))
        return
    train, test = data.train_test_split(count, share, rng=rng(seed))
    assert len(test) == cut
    assert sorted([*train, *test]) == list(range(count))


def test_a_split_is_shuffled_and_the_generator_decides() -> None:
    train, test = data.train_test_split(100, 0.2, rng=rng())
    again, _ = data.train_test_split(100, 0.2, rng=rng())
    other, _ = data.train_test_split(100, 0.2, rng=rng(1))
    np.testing.assert_array_equal(train, again)
    assert (train != other).any()
    assert sorted(test) != list(test)


@given(st.lists(st.sampled_from("abcdef"), min_size=2), st.integers(0, 99))
def test_a_group_is_on_one_side(groups: list[str], seed: int) -> None:
    if len(set(groups)) < 2:
        with pytest.raises(ValueError, match="cannot split 1 in two"):
            data.group_split(groups, 0.5, rng=rng(seed))
        return
    train, test = data.group_split(groups, 0.5, rng=rng(seed))
    assert sorted([*train, *test]) == list(range(len(groups)))
    sides = [{groups[row] for row in side} for side in (train, test)]
    assert sides[0].isdisjoint(sides[1])
    assert len(sides[1]) == round(len(set(groups)) * 0.5)


def test_a_share_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a test share of 0\.1 cannot split 4 in two"):
        data.train_test_split(4, 0.1, rng=rng())


# ----- Batches -----


@given(st.integers(1, 30), st.integers(1, 12), st.booleans(), st.booleans())
def test_an_epoch_has_each_row_once(n: int, size: int, shuffle: bool, drop_last: bool) -> None:
    x, y = np.arange(n), np.arange(n) * 10
    loader = data.DataLoader(x, y, batch_size=size, rng=rng(), shuffle=shuffle, drop_last=drop_last)
    batches = list(loader)
    assert len(batches) == len(loader)
    rows = [row for batch, _ in batches for row in batch]
    assert len(rows) == len(set(rows)) == (n // size * size if drop_last else n)
    assert all(len(batch) == size for batch, _ in batches[:-1])
    for batch, targets in batches:
        np.testing.assert_array_equal(targets, batch * 10)
    if not shuffle:
        assert rows == sorted(rows)


def epochs(seed: int, count: int = 2) -> list[list[int]]:
    loader = data.DataLoader(np.arange(40), batch_size=7, rng=rng(seed))
    return [[row for (batch,) in loader for row in batch] for _ in range(count)]


def test_the_order_changes_with_the_epoch_and_the_seed_and_with_nothing_else() -> None:
    assert epochs(0) == epochs(0)
    assert epochs(0)[0] != epochs(0)[1]
    assert epochs(0)[0] != epochs(1)[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: data.DataLoader(x, x[:2], batch_size=1, rng=rng()), r"of \[3, 2\] rows do not"),
        (lambda x: data.DataLoader(x, batch_size=0, rng=rng()), "a batch size of 0: at least 1"),
    ],
)
def test_a_loader_refuses(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(np.arange(3))


def test_workers_draw_different_numbers_and_the_same_again() -> None:
    draws = [generator.random() for generator in data.worker_generators(5, 8)]
    assert len(set(draws)) == 8
    assert draws == [generator.random() for generator in data.worker_generators(5, 8)]
    assert draws[0] != data.worker_generators(6, 1)[0].random()


# ----- Sequences -----


def test_the_target_is_the_symbol_that_comes_next() -> None:
    inputs, targets = data.next_symbols(np.array([[1, 2, 3], [7, 8, 9]]))
    np.testing.assert_array_equal(inputs, [[1, 2], [7, 8]])
    np.testing.assert_array_equal(targets, [[2, 3], [8, 9]])


def test_a_single_symbol_has_no_next_one() -> None:
    with pytest.raises(ValueError, match="no next symbol"):
        data.next_symbols(np.array([[1], [2]]))


# ----- Scaling -----


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_scaler_gives_mean_0_and_deviation_1_and_keeps_the_dtype(dtype: Any) -> None:
    x = (3 + 2 * normal(50, 4)).astype(dtype)
    scaled = data.StandardScaler().fit(x).transform(x)
    assert scaled.dtype == dtype
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.std(0), 1, rtol=1e-6)


def test_new_rows_are_scaled_by_what_was_fitted() -> None:
    scaler = data.StandardScaler().fit(np.array([[0.0], [2.0]]))
    np.testing.assert_array_equal(scaler.transform(np.array([[5.0], [1.0]])), [[4.0], [0.0]])


def test_whole_numbers_are_scaled_by_their_deviation_and_not_by_its_whole_part() -> None:
    x = np.array([[0, 10], [1, 20], [0, 31]])
    scaler = data.StandardScaler().fit(x)
    np.testing.assert_array_equal(scaler.transform(x), scaler.fit(x * 1.0).transform(x * 1.0))


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9])
def test_a_constant_column_becomes_0(constant: float) -> None:
    x = np.full((7, 1), constant)
    scaler = data.StandardScaler().fit(x)
    np.testing.assert_allclose(scaler.transform(x), 0, atol=1e-6)
    np.testing.assert_allclose(scaler.transform(x + 0.5), 0.5, rtol=1e-6)


@pytest.mark.parametrize("kind", TRANSFORMS)
def test_fit_comes_before_transform(kind: Any) -> None:
    with pytest.raises(RuntimeError, match=r"^transform\(\) before fit\(\): fit to the training r"):
        kind().transform(np.ones((2, 2)))


@pytest.mark.parametrize("kind", TRANSFORMS)
def test_one_column_does_not_broadcast(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"rows of shape \(1,\), but fitted to \(3,\)"):
        kind().fit(normal(4, 3)).transform(np.ones((2, 1)))


@pytest.mark.parametrize("hole", [NAN, INF, -INF])
def test_a_scaler_is_not_fitted_to_holes(hole: float) -> None:
    with pytest.raises(ValueError, match=r"rows \[1\] and columns \[0\]"):
        data.StandardScaler().fit(np.array([[1.0], [hole]]))


# ----- Missing values -----


def test_rows_and_columns_with_holes_are_named() -> None:
    with pytest.raises(ValueError, match=r"rows \[0, 2\] and columns \[0, 1\]: drop the rows, or"):
        data.check_complete(HOLES)
    data.check_complete(HOLES[1:2])


def test_dropping_takes_the_same_rows_from_all_arrays() -> None:
    x, y = data.drop_missing(HOLES, np.array([10, 20, 30]))
    np.testing.assert_array_equal(x, HOLES[1:2])
    np.testing.assert_array_equal(y, [20])


def test_an_imputer_fills_in_the_means_of_the_rows_it_was_fitted_to() -> None:
    imputer = data.MeanImputer().fit(HOLES[:2])
    filled = imputer.transform(HOLES)
    np.testing.assert_array_equal(filled, [[1, 5, 3], [4, 5, 6], [2.5, 5, 9]])
    assert np.isfinite(HOLES).sum() == 6
    assert not np.isnan(data.MeanImputer().fit(HOLES).transform(HOLES)).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_imputer_keeps_the_dtype(dtype: Any) -> None:
    holes = HOLES.astype(dtype)
    assert data.MeanImputer().fit(holes).transform(holes).dtype == dtype


def test_a_column_without_a_value_has_no_mean() -> None:
    with pytest.raises(ValueError, match=r"columns \[1\] have no value, so they have no mean"):
        data.MeanImputer().fit(HOLES[[0, 2]])


# ----- Augmentation -----


def test_an_image_and_its_mask_are_flipped_together() -> None:
    images, masks = normal(40, 3, 2, 5), np.arange(40 * 10).reshape(40, 2, 5)
    flipped, turned = data.random_flip(images, masks, rng=rng())
    for image, mask, new_image, new_mask in zip(images, masks, flipped, turned, strict=True):
        step = 1 if (new_mask == mask).all() else -1
        np.testing.assert_array_equal(new_image, image[..., ::step])
        np.testing.assert_array_equal(new_mask, mask[..., ::step])
    share = (turned != masks).any((1, 2)).mean()
    assert 0.2 < share < 0.8
    np.testing.assert_array_equal(data.random_flip(images, rng=rng())[0], flipped)


@pytest.mark.parametrize("dtype", DTYPES)
def test_noise_has_its_deviation_and_the_dtype_of_the_data(dtype: Any) -> None:
    x = normal(200, 50).astype(dtype)
    noisy = data.add_noise(x, 0.3, rng=rng())
    assert noisy.dtype == dtype
    assert (noisy - x).std() == pytest.approx(0.3, rel=0.02)
    np.testing.assert_array_equal(noisy, data.add_noise(x, 0.3, rng=rng()))
    assert (noisy != data.add_noise(x, 0.3, rng=rng(1))).any()


def test_noise_on_whole_numbers_is_refused() -> None:
    with pytest.raises(TypeError, match=r"noise on uint8 would be cut down to whole numbers"):
        data.add_noise(np.zeros((2, 2), np.uint8), 0.3, rng=rng())
