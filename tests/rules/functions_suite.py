"""Tests of `functions.py` that end in a plain sum, as most tests of a Function do."""

import torch
from functions import Mul, Scale


def test_scale():
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    Scale.apply(x, 3.0).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_mul():
    a, b = (torch.tensor(v, requires_grad=True) for v in ([1.0, -2.0], [3.0, 0.5]))
    Mul.apply(a, b).sum().backward()
    assert torch.equal(a.grad, b)
    assert torch.equal(b.grad, a)
