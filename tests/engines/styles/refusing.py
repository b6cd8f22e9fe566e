"""Tensors have at most two axes; the constructor refuses any others, in every phase."""

import numpy as np


class Tensor:
    def __init__(self, data, parents=()):
        data = np.asarray(data, dtype=float)
        if data.ndim > 2:
            raise ValueError("data must be scalar, 1-D or 2-D")
        self.data, self.grad = data, np.zeros_like(data)
        self._parents, self._backward = parents, None

    def __add__(self, other):
        other = other if isinstance(other, Tensor) else Tensor(other)
        out = Tensor(self.data + other.data, (self, other))

        def _backward():
            self.grad = self.grad + _fit(out.grad, self.data)
            other.grad = other.grad + _fit(out.grad, other.data)

        out._backward = _backward
        return out

    def __mul__(self, other):
        other = other if isinstance(other, Tensor) else Tensor(other)
        out = Tensor(self.data * other.data, (self, other))

        def _backward():
            self.grad = self.grad + _fit(out.grad * other.data, self.data)
            other.grad = other.grad + _fit(out.grad * self.data, other.data)

        out._backward = _backward
        return out

    def __pow__(self, k):
        out = Tensor(self.data**k, (self,))

        def _backward():
            self.grad = self.grad + out.grad * k * self.data ** (k - 1)

        out._backward = _backward
        return out

    def sum(self, axis=None):
        out = Tensor(self.data.sum(axis=axis), (self,))

        def _backward():
            g = out.grad if axis is None else np.expand_dims(out.grad, axis)
            self.grad = self.grad + g * np.ones_like(self.data)

        out._backward = _backward
        return out

    def backward(self, grad=None):
        topo, visited = [], set()

        def build(t):
            if id(t) not in visited:
                visited.add(id(t))
                for p in t._parents:
                    build(p)
                topo.append(t)

        build(self)
        for t in topo:
            if t._parents:
                t.grad = np.zeros_like(t.data)
        self.grad = self.grad + (1.0 if grad is None else grad)
        for t in reversed(topo):
            if t._backward:
                t._backward()


def _fit(grad, data):
    """Sum over rows, columns or both, until the gradient has the shape of the data."""
    if grad.shape == data.shape:
        return grad
    if data.ndim == 0:
        return grad.sum()
    if data.ndim == 1:
        return grad.sum(axis=0) if len(data) > 1 else grad.sum().reshape(1)
    for axis in (0, 1):
        if data.shape[axis] == 1:
            grad = grad.sum(axis=axis, keepdims=True)
    return grad
