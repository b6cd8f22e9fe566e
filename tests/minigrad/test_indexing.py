"""Indexing and einsum, against oracles that are slow and obvious."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import minigrad
from minigrad import Tensor

INTEGERS = st.integers(-9, 9)  # exact in floating point, whatever the order of a sum


def values(shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(np.float64, shape, elements=INTEGERS)


ARRAYS = hnp.array_shapes(max_dims=3, max_side=4).flatmap(values)


def assert_getitem_adds_into_place(array: np.ndarray, index: Any, data: st.DataObject) -> None:
    leaf = Tensor(array, requires_grad=True)
    picked = leaf[index]
    np.testing.assert_array_equal(picked.data, array[index], strict=True)
    cotangent = data.draw(values(picked.shape))
    picked.backward(cotangent)
    expected = np.zeros(array.shape)
    np.add.at(expected, index, cotangent)
    assert leaf.grad is not None
    np.testing.assert_array_equal(leaf.grad, expected, strict=True)


@given(ARRAYS, st.data())
def test_slices_and_integers_put_the_cotangent_back(array: np.ndarray, data: st.DataObject) -> None:
    index = data.draw(hnp.basic_indices(array.shape, allow_newaxis=True))
    assert_getitem_adds_into_place(array, index, data)


@given(ARRAYS, st.data())
def test_repeated_integers_add_their_cotangents_up(array: np.ndarray, data: st.DataObject) -> None:
    index = data.draw(hnp.integer_array_indices(array.shape))
    assert_getitem_adds_into_place(array, index, data)


@given(ARRAYS, st.data())
def test_a_mask_puts_the_cotangent_back(array: np.ndarray, data: st.DataObject) -> None:
    mask = data.draw(hnp.arrays(np.bool_, array.shape))
    assert_getitem_adds_into_place(array, mask, data)


@given(ARRAYS, st.data())
def test_any_mixture_adds_the_cotangents_up(array: np.ndarray, data: st.DataObject) -> None:
    repeats = data.draw(st.integers(1, 3))

    def part(length: int) -> st.SearchStrategy[Any]:
        places = st.integers(-length, length - 1)
        return st.one_of(
            st.slices(length),
            places,
            st.lists(places, min_size=repeats, max_size=repeats),
            st.permutations([True] + [False] * (length - 1)),
        )

    parts = [data.draw(part(length)) for length in array.shape]
    cut = data.draw(st.integers(0, len(parts)))
    assert_getitem_adds_into_place(array, tuple(parts[:cut]), data)


@given(ARRAYS, st.data())
def test_gather_adds_into_place(array: np.ndarray, data: st.DataObject) -> None:
    dim = data.draw(st.integers(-array.ndim, array.ndim - 1))
    shape = [data.draw(st.integers(0, length)) for length in array.shape]
    places = st.integers(0, array.shape[dim] - 1)
    index = data.draw(hnp.arrays(np.int64, tuple(shape), elements=places))
    ours = Tensor(array, requires_grad=True)
    theirs = torch.tensor(array, requires_grad=True)
    cotangent = data.draw(values(index.shape))
    picked, expected = ours.gather(dim, index), theirs.gather(dim, torch.from_numpy(index))
    np.testing.assert_array_equal(picked.data, expected.detach().numpy(), strict=True)
    picked.backward(cotangent)
    expected.backward(torch.from_numpy(cotangent))
    np.testing.assert_array_equal(ours.grad, theirs.grad.numpy(), strict=True)


@pytest.mark.parametrize("index", [[[0, 3]], [[0], [0], [0]]])
def test_gather_does_not_leave_the_tensor(index: list[list[int]]) -> None:
    with pytest.raises(IndexError, match="out of bounds"):
        Tensor(np.ones((2, 3))).gather(1, np.array(index))


# ----- Pieces -----


@given(ARRAYS, st.data())
def test_the_pieces_of_a_split_make_the_whole_again(array: np.ndarray, data: st.DataObject) -> None:
    dim = data.draw(st.integers(-array.ndim, array.ndim - 1))
    length = array.shape[dim]
    cuts = sorted(data.draw(st.lists(st.integers(0, length), max_size=3)))
    listed = np.diff([0, *cuts, length]).tolist()
    size: Any = data.draw(st.one_of(st.integers(1, 5), st.just(listed)))
    leaf = Tensor(array, requires_grad=True)
    pieces = leaf.split(size, dim)
    assert [p.shape for p in pieces] == [p.shape for p in torch.tensor(array).split(size, dim)]
    whole = minigrad.cat(pieces, dim)
    np.testing.assert_array_equal(whole.data, array, strict=True)
    whole.backward(array)
    np.testing.assert_array_equal(leaf.grad, array, strict=True)


def test_nothing_splits_into_one_piece_of_nothing() -> None:
    assert [piece.shape for piece in Tensor(np.ones((2, 0))).split(3, 1)] == [(2, 0)]


def test_the_listed_pieces_must_add_up() -> None:
    with pytest.raises(ValueError, match=r"pieces of \[1, 1\] out of an axis of length 3"):
        Tensor(np.ones(3)).split([1, 1])


@pytest.mark.parametrize("widths", [(1,), (1, 1, 1, 1)])
def test_a_frame_has_two_widths_for_each_axis(widths: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"\d widths: two for each axis, and there are 1 axes"):
        minigrad.pad(Tensor(np.ones(3)), widths)


def test_squeeze_names_an_axis_that_exists() -> None:
    with pytest.raises(IndexError, match="out of bounds"):
        Tensor(np.ones((1, 3))).squeeze(2)


# ----- Einsum -----

LETTERS = "abc"


@st.composite
def products(draw: st.DrawFn) -> tuple[str, list[np.ndarray]]:
    """Random subscripts and operands: letters summed, repeated, and stretched from length one."""
    lengths = {letter: draw(st.integers(0, 3)) for letter in LETTERS}
    terms = draw(st.lists(st.text(LETTERS, max_size=3), min_size=1, max_size=3))
    operands = []
    for term in terms:
        sides = {x: 1 if draw(st.integers(0, 5)) == 0 else lengths[x] for x in set(term)}
        operands.append(draw(values(tuple(sides[x] for x in term))))
    known = sorted(set("".join(terms)))
    output = draw(st.lists(st.sampled_from(known), unique=True)) if known else []
    arrow = draw(st.sampled_from(["->" + "".join(output), ""]))
    return ",".join(terms) + arrow, operands


@given(products(), st.data())
def test_einsum_agrees_with_torch(
    product: tuple[str, list[np.ndarray]], data: st.DataObject
) -> None:
    subscripts, operands = product
    ours = [Tensor(array, requires_grad=True) for array in operands]
    theirs = [torch.tensor(array, requires_grad=True) for array in operands]
    output, expected = minigrad.einsum(subscripts, *ours), torch.einsum(subscripts, *theirs)
    np.testing.assert_array_equal(output.data, expected.detach().numpy(), strict=True)
    cotangent = data.draw(values(output.shape))
    output.backward(cotangent)
    expected.backward(torch.from_numpy(cotangent))
    for actual, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(actual.grad, other.grad.numpy(), strict=True)


@pytest.mark.parametrize(
    ("subscripts", "count", "message"),
    [
        ("ij,jk->ik", 1, "operands"),
        ("ij->ik", 1, "(?i)output"),
        ("ijk->i", 1, "subscript"),
        ("ij,jk->ik", 2, "(?i)dimension|broadcast|size"),
    ],
)
def test_einsum_refuses_what_does_not_match(subscripts: str, count: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        minigrad.einsum(subscripts, *[Tensor(np.ones((2, 3)))] * count)
