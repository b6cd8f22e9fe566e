"""Plain functions: every op against central differences, with parametrised shapes."""

import numpy as np
import pytest

from minigrad import cat, maximum, stack, tensor, where

OPS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / (b * b + 1),
    "exp": lambda a, b: (a + 0 * b).exp(),
    "tanh": lambda a, b: (a * b).tanh(),
    "sigmoid": lambda a, b: (a - b).sigmoid(),
    "softmax": lambda a, b: (a * b).softmax(-1),
    "mean": lambda a, b: (a * b).mean(-1),
    "max": lambda a, b: (a + b).amax(-1),
    "maximum": maximum,
    "where": lambda a, b: where(np.arange(3) > 0, a, b),
    "square": lambda a, b: (a * b) ** 2,
}
SHAPES = [((3,), (3,)), ((3,), (4, 3)), ((4, 1), (1, 3)), ((2, 1, 3), (4, 1))]


def _numerical(function, arrays, which, weights, step=1e-6):
    gradient = np.zeros(arrays[which].shape)
    for index in np.ndindex(gradient.shape):
        values = []
        for sign in (1, -1):
            moved = [array.copy() for array in arrays]
            moved[which][index] += sign * step
            values.append((function(*map(tensor, moved)).data * weights).sum())
        gradient[index] = (values[0] - values[1]) / (2 * step)
    return gradient


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("name", OPS)
def test_gradient(name, shapes):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in shapes]
    leaves = [tensor(array, requires_grad=True) for array in arrays]
    output = OPS[name](*leaves)
    weights = rng.normal(size=output.shape)
    (output * weights).sum().backward()
    for which, leaf in enumerate(leaves):
        assert leaf.grad.shape == arrays[which].shape
        np.testing.assert_allclose(
            leaf.grad, _numerical(OPS[name], arrays, which, weights), atol=1e-6
        )


@pytest.mark.parametrize("shapes", [((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((3,), (3,))], ids=str)
def test_matmul(shapes):
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=shape) for shape in shapes]
    leaves = [tensor(array, requires_grad=True) for array in arrays]
    output = leaves[0] @ leaves[1]
    weights = rng.normal(size=output.shape)
    (output * weights).sum().backward()
    for which, leaf in enumerate(leaves):
        expected = _numerical(lambda a, b: a @ b, arrays, which, weights)
        np.testing.assert_allclose(leaf.grad, expected, atol=1e-6)


@pytest.mark.parametrize("join", [cat, stack])
def test_joining(join):
    a, b = tensor(np.ones((2, 3)), requires_grad=True), tensor(np.ones((2, 3)), requires_grad=True)
    output = join([a, b])
    weights = np.arange(output.data.size, dtype=float).reshape(output.shape)
    (output * weights).sum().backward()
    halves = weights.reshape(2, 2, 3)
    np.testing.assert_array_equal(a.grad, halves[0])
    np.testing.assert_array_equal(b.grad, halves[1])


def test_an_index_that_occurs_twice():
    a = tensor(np.arange(4.0), requires_grad=True)
    a[np.array([0, 0, 2])].sum().backward()
    assert a.grad.tolist() == [2.0, 0.0, 1.0, 0.0]


def test_a_value_that_is_used_twice():
    a = tensor(np.array([1.0, 2.0]), requires_grad=True)
    h = a.exp()
    (h + h * h).sum().backward()
    np.testing.assert_allclose(a.grad, np.exp([1.0, 2.0]) + 2 * np.exp([2.0, 4.0]))


def test_constants_are_not_changed():
    x = np.ones(3)
    (tensor(x, requires_grad=True) * 2).sum().backward()
    assert x.tolist() == [1.0, 1.0, 1.0]
