"""Broadcasting and indexing, against oracles that are slow and obvious."""

import string
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from minigrad import Tensor, unbroadcast

SHAPES = hnp.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_dims=4, max_side=4)
INTEGERS = st.integers(-9, 9)  # exact in floating point, whatever the order of a sum


def values(shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(np.float64, shape, elements=INTEGERS)


@given(SHAPES, st.data())
def test_unbroadcast_sums_the_copies_of_each_element(
    shapes: hnp.BroadcastableShapes, data: st.DataObject
) -> None:
    cotangent = data.draw(values(shapes.result_shape))
    for shape in shapes.input_shapes:
        created = cotangent.ndim - len(shape)
        padded = (1,) * created + shape
        axes = string.ascii_lowercase[: cotangent.ndim]
        kept = [axis for axis, n, m in zip(axes, padded, cotangent.shape, strict=True) if n == m]
        expected = np.einsum(f"{axes}->{''.join(kept)}", cotangent).reshape(shape)
        np.testing.assert_array_equal(unbroadcast(cotangent, shape), expected, strict=True)


@given(SHAPES, st.data())
def test_broadcasting_has_the_gradient_of_explicit_copies(
    shapes: hnp.BroadcastableShapes, data: st.DataObject
) -> None:
    whole = shapes.result_shape
    cotangent = data.draw(values(whole))
    stretched, other = (Tensor(data.draw(values(s)), requires_grad=True) for s in shapes[0])
    (stretched * other).backward(cotangent)

    origin = np.arange(stretched.data.size).reshape(stretched.shape)
    expected = np.zeros(stretched.data.size)
    for element in np.ndindex(whole):
        source = np.broadcast_to(origin, whole)[element]
        expected[source] += cotangent[element] * np.broadcast_to(other.data, whole)[element]
    assert stretched.grad is not None
    np.testing.assert_array_equal(stretched.grad, expected.reshape(stretched.shape), strict=True)


def test_a_cotangent_of_the_right_shape_is_not_copied() -> None:
    cotangent = np.ones((1, 3))
    assert unbroadcast(cotangent, (1, 3)) is cotangent


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


ARRAYS = hnp.array_shapes(max_dims=3, max_side=4).flatmap(values)


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
