"""Closures that assign a new sum; gradients in `_grad`, None before the first backward pass."""

import numpy as np


def _sum_to_shape(g, shape):
    while g.ndim > len(shape):
        g = g.sum(axis=0)
    for i, n in enumerate(shape):
        if n == 1 and g.shape[i] != 1:
            g = g.sum(axis=i, keepdims=True)
    return g


class Array:
    def __init__(self, value, parents=(), rule=None):
        self.value = np.asarray(value, dtype=np.float64)
        self._parents, self._rule = parents, rule
        self._grad = np.zeros(self.value.shape)

    @property
    def grad(self):
        return self._grad

    def clear_grad(self):
        self._grad = np.zeros(self.value.shape)

    def add(self, other):
        def rule(g):
            self._grad = self._grad + _sum_to_shape(g, self.value.shape)
            other._grad = other._grad + _sum_to_shape(g, other.value.shape)

        return Array(self.value + other.value, (self, other), rule)

    def sub(self, other):
        def rule(g):
            self._grad = self._grad + _sum_to_shape(g, self.value.shape)
            other._grad = other._grad + _sum_to_shape(-g, other.value.shape)

        return Array(self.value - other.value, (self, other), rule)

    def mul(self, other):
        def rule(g):
            self._grad = self._grad + _sum_to_shape(g * other.value, self.value.shape)
            other._grad = other._grad + _sum_to_shape(g * self.value, other.value.shape)

        return Array(self.value * other.value, (self, other), rule)

    def exp(self):
        def rule(g):
            self._grad = self._grad + g * np.exp(self.value)

        return Array(np.exp(self.value), (self,), rule)

    def mean(self):
        def rule(g):
            self._grad = self._grad + np.full(self.value.shape, g / self.value.size)

        return Array(self.value.mean(), (self,), rule)

    __add__, __sub__, __mul__ = add, sub, mul

    def backward(self, g=None):
        order, seen, pending = [], set(), [(self, False)]
        while pending:
            node, ready = pending.pop()
            if ready:
                order.append(node)
            elif id(node) not in seen:
                seen.add(id(node))
                pending.append((node, True))
                pending.extend((parent, False) for parent in node._parents)
        self._grad = np.ones(self.value.shape) if g is None else np.asarray(g)
        for node in order[::-1]:
            if node._rule is not None:
                node._rule(node._grad)
