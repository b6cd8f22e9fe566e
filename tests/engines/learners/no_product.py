"""Arrays that are added, multiplied as matrices and raised to a power, but not multiplied."""

import numpy as np


class Unit:
    def __init__(self, data, inputs=(), pull=None):
        self.data = np.array(data, dtype=float)
        self.grad = np.zeros(self.data.shape)
        self.inputs, self.pull = inputs, pull

    def __add__(self, other):
        return Unit(self.data + other.data, (self, other), lambda g: (g, g))

    def __sub__(self, other):
        return Unit(self.data - other.data, (self, other), lambda g: (g, -g))

    def __matmul__(self, other):
        a, b = self.data, other.data
        return Unit(a @ b, (self, other), lambda g: (g @ b.T, a.T @ g))

    def __pow__(self, k):
        x = self.data
        return Unit(x**k, (self,), lambda g: (g * k * x ** (k - 1),))

    def tanh(self):
        t = np.tanh(self.data)
        return Unit(t, (self,), lambda g: (g * (1 - t * t),))

    def sum(self):
        shape = self.data.shape
        return Unit(self.data.sum(), (self,), lambda g: (np.full(shape, g),))

    def backward(self):
        self.grad = np.ones(self.data.shape)
        for unit in results_first(self):
            parts = unit.pull(unit.grad) if unit.inputs else ()
            for source, part in zip(unit.inputs, parts, strict=True):
                source.grad += narrowed(part, source.grad.shape)


def results_first(end):
    order = []

    def visit(unit):
        if unit not in order:
            for source in unit.inputs:
                visit(source)
            order.append(unit)

    visit(end)
    return order[::-1]


def narrowed(g, shape):
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    return g.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)
