"""Broadcasting, against oracles that are slow and obvious."""

import math
import operator
import string
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import minigrad
from minigrad import Tensor, unbroadcast
from tests.minigrad.against_torch import Program

SHAPES = hnp.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_dims=4, max_side=4)
INTEGERS = st.integers(-9, 9)  # exact in floating point, whatever the order of a sum


def values(shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(np.float64, shape, elements=INTEGERS)


def powers_of_two(shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    """Values whose quotients are exact as well."""
    return hnp.arrays(np.float64, shape, elements=st.sampled_from([-2.0, -0.5, 0.25, 1.0, 4.0]))


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


BINARY: list[Program] = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    minigrad.maximum,
    minigrad.minimum,
    lambda a, b: minigrad.where(a >= b, a, b),
]


@pytest.mark.parametrize("op", BINARY)
@given(SHAPES, st.data())
def test_broadcasting_has_the_gradient_of_explicit_copies(
    op: Program, shapes: hnp.BroadcastableShapes, data: st.DataObject
) -> None:
    whole = shapes.result_shape
    cotangent = data.draw(values(whole))
    leaves = [Tensor(data.draw(powers_of_two(s)), requires_grad=True) for s in shapes.input_shapes]
    copies = [Tensor(np.broadcast_to(leaf.data, whole), requires_grad=True) for leaf in leaves]
    broadcast, copied = op(*leaves), op(*copies)
    np.testing.assert_array_equal(broadcast.data, copied.data, strict=True)
    broadcast.backward(cotangent)
    copied.backward(cotangent)
    for leaf, copy in zip(leaves, copies, strict=True):
        assert leaf.grad is not None
        np.testing.assert_array_equal(leaf.grad, added_up(copy.grad, leaf.shape), strict=True)


@given(hnp.mutually_broadcastable_shapes(signature="(m,k),(k,n)->(m,n)", max_dims=2), st.data())
def test_a_batched_product_has_the_gradient_of_explicit_copies(
    shapes: hnp.BroadcastableShapes, data: st.DataObject
) -> None:
    cotangent = data.draw(values(shapes.result_shape))
    batch = shapes.result_shape[:-2]
    leaves = [Tensor(data.draw(values(s)), requires_grad=True) for s in shapes.input_shapes]
    copies = [
        Tensor(np.broadcast_to(leaf.data, batch + leaf.shape[-2:]), requires_grad=True)
        for leaf in leaves
    ]
    (leaves[0] @ leaves[1]).backward(cotangent)
    (copies[0] @ copies[1]).backward(cotangent)
    for leaf, copy in zip(leaves, copies, strict=True):
        assert leaf.grad is not None
        np.testing.assert_array_equal(leaf.grad, added_up(copy.grad, leaf.shape), strict=True)


def added_up(copies: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The sum of the copies of each element of an array that was broadcast."""
    origin = np.broadcast_to(np.arange(math.prod(shape)).reshape(shape), copies.shape)
    total = np.zeros(math.prod(shape))
    np.add.at(total, origin, copies)
    return total.reshape(shape)


def test_a_cotangent_of_the_right_shape_is_not_copied() -> None:
    cotangent = np.ones((1, 3))
    assert unbroadcast(cotangent, (1, 3)) is cotangent
