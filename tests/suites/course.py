"""A weak suite, as a course might use it: trees, ones and sums."""

import numpy as np

from minigrad import tensor


def _leaf(*values):
    return tensor(np.array(values), requires_grad=True)


def test_add():
    a, b = _leaf(1.0, 2.0), _leaf(3.0, 4.0)
    (a + b).sum().backward()
    assert a.grad.tolist() == [1.0, 1.0]
    assert b.grad.tolist() == [1.0, 1.0]


def test_mul_of_a_number_with_itself():
    a = _leaf(3.0)
    (a * a).sum().backward()
    assert a.grad.tolist() == [6.0]


def test_matmul_of_squares():
    a, b = tensor(np.eye(3), requires_grad=True), tensor(np.ones((3, 3)), requires_grad=True)
    (a @ b).sum().backward()
    assert a.grad.shape == (3, 3)
    assert b.grad.shape == (3, 3)


def test_relu():
    a = _leaf(-1.0, 2.0)
    a.relu().sum().backward()
    assert a.grad.tolist() == [0.0, 1.0]


def test_gradients_exist():
    a, b = _leaf(1.0, 2.0), _leaf(3.0)
    ((a * b).exp().sum() / 2).backward()
    assert a.grad is not None
    assert b.grad is not None


def test_the_loss_falls():
    x = np.linspace(-1, 1, 20).reshape(-1, 1)
    w, b = _leaf(0.0), _leaf(0.0)
    losses = []
    for _ in range(20):
        w.grad = b.grad = None
        loss = ((tensor(x) * w + b - (2 * x + 1)) ** 2).mean()
        loss.backward()
        losses.append(loss.item())
        w.data = w.data - 0.1 * w.grad
        b.data = b.data - 0.1 * b.grad
    assert losses[-1] < losses[0]
