"""A small suite with a fixture, parameters, a `unittest` class and a test that fails anyway."""

SUITE = """
import unittest
import numpy as np
import pytest
from minigrad import tensor


@pytest.fixture(scope="module")
def product():
    a, b = tensor([1.0, 2.0], requires_grad=True), tensor([3.0, 4.0], requires_grad=True)
    (a * b).sum().backward()
    return a, b


def test_only_the_fixture_is_asked_for(product):
    pass


def test_mul(product):
    assert product[0].grad.tolist() == [3.0, 4.0]


@pytest.mark.kills("sub-sign")
@pytest.mark.parametrize("n", [1, 3])
def test_sub(n):
    a = tensor(np.ones(n), requires_grad=True)
    (1 - a).sum().backward()
    assert a.grad.tolist() == [-1.0] * n


class TestAdd(unittest.TestCase):
    def test_broadcast(self):
        a = tensor(np.ones(3), requires_grad=True)
        (a + np.ones((4, 3))).sum().backward()
        self.assertEqual(a.grad.shape, (3,))


@pytest.mark.xfail
def test_that_fails_anyway():
    assert tensor(2.0).exp().item() == 0
"""
