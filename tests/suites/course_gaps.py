"""Tests for what `course.py` misses, each written from the reason why a break survives there."""

import numpy as np

from minigrad import tensor
from tests.suites.course import _leaf

# ----- Other inputs, the same assertion: the shape and a value -----


def test_matmul_of_a_batch():  # instead of squares
    a = tensor(np.ones((2, 3, 4)), requires_grad=True)
    b = tensor(np.arange(40.0).reshape(2, 4, 5), requires_grad=True)
    (a @ b).sum().backward()
    assert a.grad.shape == (2, 3, 4)
    assert b.grad.shape == (2, 4, 5)


def test_matmul_of_a_batch_with_one_matrix():  # instead of equal shapes
    a = tensor(np.ones((2, 3, 4)), requires_grad=True)
    b = tensor(np.ones((4, 5)), requires_grad=True)
    (a @ b).sum().backward()
    assert b.grad.shape == (4, 5)


def test_matmul_of_a_row():  # instead of a matrix of ones
    a, b = tensor(np.ones((1, 2)), requires_grad=True), _leaf([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    (a @ b).sum().backward()
    assert a.grad.tolist() == [[6.0, 15.0]]


def test_division_of_a_row():  # instead of a number
    a, b = _leaf([1.0, 2.0], [3.0, 4.0]), _leaf(2.0, 4.0)
    (a / b).sum().backward()
    assert b.grad.tolist() == [-1.0, -0.375]


# ----- The same inputs, other assertions -----


def test_gradients_exist():
    a, b = _leaf(1.0, 2.0), _leaf(3.0)
    ((a * b).exp().sum() / 2).backward()
    np.testing.assert_allclose(a.grad, 3 * np.exp([3.0, 6.0]) / 2)
    np.testing.assert_allclose(b.grad, [np.exp(3.0) / 2 + np.exp(6.0)], strict=True)
