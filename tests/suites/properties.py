"""Hypothesis properties of the gradients."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from minigrad import tensor

floats = st.floats(-3, 3)
matrices = array_shapes(min_dims=1, max_dims=3, max_side=4).flatmap(
    lambda shape: arrays(float, shape, elements=floats)
)
few = settings(max_examples=25)


@few
@given(matrices)
def test_the_gradient_of_a_sum_is_ones(x):
    leaf = tensor(x, requires_grad=True)
    leaf.sum().backward()
    np.testing.assert_array_equal(leaf.grad, np.ones_like(x))


@few
@given(matrices, st.integers(1, 4))
def test_the_gradient_of_a_broadcast_operand_is_a_sum(x, times):
    leaf = tensor(x, requires_grad=True)
    weights = np.arange(times * x.size, dtype=float).reshape(times, *x.shape)
    ((leaf + np.zeros((times, *x.shape))) * weights).sum().backward()
    np.testing.assert_allclose(leaf.grad, weights.sum(axis=0), atol=1e-9)


@few
@given(matrices)
def test_gradients_are_linear_in_the_cotangent(x):
    gradients = []
    for factor in (1.0, 3.0):
        leaf = tensor(x, requires_grad=True)
        (leaf.tanh() * factor).sum().backward()
        gradients.append(leaf.grad)
    np.testing.assert_allclose(gradients[1], 3 * gradients[0], atol=1e-9)


@few
@given(matrices)
def test_softmax_ignores_a_shift(x):
    shifted = tensor(x + 100.0).softmax(-1).data
    np.testing.assert_allclose(tensor(x).softmax(-1).data, shifted, atol=1e-6)
    np.testing.assert_allclose(shifted.sum(-1), np.ones(x.shape[:-1]))


@few
@given(arrays(float, (3, 4), elements=floats))
def test_transposing_twice_changes_nothing(x):
    leaf = tensor(x, requires_grad=True)
    weights = np.arange(12.0).reshape(3, 4)
    (leaf.T.T * weights).sum().backward()
    np.testing.assert_array_equal(leaf.grad, weights)
