"""Tests of `engine.py` with some gaps: nothing reaches tanh, and no operand is broadcast."""

import numpy as np
import pytest
from engine import Tensor


@pytest.mark.kills("factor-dropped")
def test_mul():
    a, b = Tensor([2.0, -3.0]), Tensor([5.0, 0.5])
    (a * b).backward([1.0, -2.0])
    assert np.allclose(a.grad, [5.0, -1.0])
    assert np.allclose(b.grad, [2.0, 6.0])


def test_add():
    a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    (a + b).backward([1.0, 1.0])
    assert np.allclose(a.grad, 1.0)
    assert np.allclose(b.grad, 1.0)


def test_matmul_of_a_symmetric_matrix():
    a, b = Tensor(np.eye(2)), Tensor([[2.0, 1.0], [1.0, 3.0]])
    (a @ b).backward([[1.0, 2.0], [3.0, 4.0]])
    assert np.allclose(a.grad, [[4.0, 7.0], [10.0, 15.0]])
    assert np.allclose(b.grad, [[1.0, 2.0], [3.0, 4.0]])


def test_relu_runs():
    Tensor([1.0, 2.0]).relu().backward([1.0, 1.0])
