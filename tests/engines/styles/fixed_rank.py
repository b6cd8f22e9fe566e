"""Everything is a matrix: a number is (1, 1), a vector is a row."""

import numpy as np


class Matrix:
    def __init__(self, data, needs_grad=True):
        self.data = np.atleast_2d(np.asarray(data, dtype=float))
        if self.data.ndim != 2:
            raise ValueError("a matrix has two axes")
        self.grad = np.zeros(self.data.shape)
        self.needs_grad, self.children, self.pull = needs_grad, [], lambda: None

    def _combine(self, other, data, pull):
        out = Matrix(data)
        out.children = [self] if other is None else [self, other]
        out.pull = lambda: pull(out.grad)
        return out

    def __add__(self, other):
        other = other if isinstance(other, Matrix) else Matrix(other)

        def pull(g):
            self.grad += fold(g, self.data.shape)
            other.grad += fold(g, other.data.shape)

        return self._combine(other, self.data + other.data, pull)

    def __mul__(self, other):
        other = other if isinstance(other, Matrix) else Matrix(other)

        def pull(g):
            self.grad += fold(g * other.data, self.data.shape)
            other.grad += fold(g * self.data, other.data.shape)

        return self._combine(other, self.data * other.data, pull)

    def __matmul__(self, other):
        def pull(g):
            self.grad += g @ other.data.T
            other.grad += self.data.T @ g

        return self._combine(other, self.data @ other.data, pull)

    def relu(self):
        def pull(g):
            self.grad += g * (self.data > 0)

        return self._combine(None, np.maximum(self.data, 0), pull)

    def sum(self, axis=None):
        def pull(g):
            self.grad += np.broadcast_to(g, self.data.shape)

        return self._combine(None, self.data.sum(axis=axis, keepdims=True), pull)

    def backward(self):
        order = []

        def visit(node):
            if not any(node is other for other in order):
                for child in node.children:
                    visit(child)
                order.append(node)

        visit(self)
        self.grad = np.ones(self.data.shape)
        for node in reversed(order):
            node.pull()


def fold(g, shape):
    for axis in (0, 1):
        if shape[axis] == 1 and g.shape[axis] > 1:
            g = g.sum(axis=axis, keepdims=True)
    return g
