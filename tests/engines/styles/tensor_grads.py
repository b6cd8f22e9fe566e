"""Gradients are tensors, and the backward rules are written with the engine's own ops."""

import numpy as np


class Tensor:
    def __init__(self, array, parents=(), vjps=()):
        self._array = np.asarray(array, dtype=float)
        self._parents, self._vjps, self.grad = parents, vjps, None

    def numpy(self):
        return self._array

    @property
    def shape(self):
        return self._array.shape

    def __add__(self, other):
        vjps = (lambda g: g.reduced(self.shape), lambda g: g.reduced(other.shape))
        return Tensor(self._array + other._array, (self, other), vjps)

    def __neg__(self):
        return Tensor(-self._array, (self,), (lambda g: -g,))

    def __sub__(self, other):
        return self + -other

    def __mul__(self, other):
        vjps = (
            lambda g: (g * other).reduced(self.shape),
            lambda g: (g * self).reduced(other.shape),
        )
        return Tensor(self._array * other._array, (self, other), vjps)

    def tanh(self):
        out = Tensor(np.tanh(self._array), (self,))
        out._vjps = (lambda g: g * (Tensor(1.0) - out * out),)
        return out

    def reduced(self, shape):
        """Sum to a shape that broadcasts to this one."""
        if shape == self.shape:
            return self
        array = self._array.sum(axis=tuple(range(self._array.ndim - len(shape))))
        ones = tuple(axis for axis, size in enumerate(shape) if size == 1)
        array = array.sum(axis=ones, keepdims=True)
        return Tensor(array, (self,), (lambda g: g.spread(self.shape),))

    def spread(self, shape):
        data = np.broadcast_to(self._array, shape)
        return Tensor(data, (self,), (lambda g: g.reduced(self.shape),))

    def sum(self):
        return self.reduced(())

    def backward(self, grad=None):
        grad = Tensor(np.ones(self.shape)) if grad is None else grad
        if grad.shape != self.shape:
            raise ValueError("the gradient has another shape than the tensor")
        order = []

        def visit(t):
            if all(t is not other for other in order):
                for parent in t._parents:
                    visit(parent)
                order.append(t)

        visit(self)
        pending = {id(self): grad}
        for t in reversed(order):
            g = pending.pop(id(t))
            if not t._parents:
                t.grad = g if t.grad is None else t.grad + g
            for parent, vjp in zip(t._parents, t._vjps, strict=True):
                part = vjp(g)
                earlier = pending.get(id(parent))
                pending[id(parent)] = part if earlier is None else earlier + part
