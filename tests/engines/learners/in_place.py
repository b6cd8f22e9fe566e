"""`backward(grad_output=None)` adds in place, and calls itself for each operand, path by path."""

import numpy as np


class Tensor:
    def __init__(self, data, requires_grad=False):
        self.data = np.asarray(data, dtype=float)
        self.requires_grad = requires_grad
        self.grad = np.zeros_like(self.data)
        self.depends_on = []

    def zero_grad(self):
        self.grad[...] = 0.0

    def _result(self, data, *depends_on):
        out = Tensor(data, any(t.requires_grad for t, _ in depends_on))
        out.depends_on = list(depends_on)
        return out

    def __add__(self, other):
        return self._result(self.data + other.data, (self, lambda g: g), (other, lambda g: g))

    def __sub__(self, other):
        return self._result(self.data - other.data, (self, lambda g: g), (other, lambda g: -g))

    def __mul__(self, other):
        return self._result(
            self.data * other.data,
            (self, lambda g: g * other.data),
            (other, lambda g: g * self.data),
        )

    def tanh(self):
        t = np.tanh(self.data)
        return self._result(t, (self, lambda g: g * (1 - t * t)))

    def mean(self):
        n = self.data.size
        return self._result(self.data.mean(), (self, lambda g: np.ones_like(self.data) * g / n))

    def backward(self, grad_output=None):
        if not self.requires_grad:
            return
        if grad_output is None:
            grad_output = np.ones_like(self.data)
        self.grad += grad_output
        for tensor, rule in self.depends_on:
            tensor.backward(collapse(rule(grad_output), tensor.data.shape))


def collapse(grad, shape):
    extra = grad.ndim - len(shape)
    for _ in range(extra):
        grad = grad.sum(axis=0)
    for axis, n in enumerate(shape):
        if n == 1:
            grad = grad.sum(axis=axis, keepdims=True)
    return grad
