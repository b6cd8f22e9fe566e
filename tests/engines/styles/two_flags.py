"""A leaf keeps its gradient only if it requires one and was also asked to keep it."""

import numpy as np


class Tensor:
    def __init__(self, data, requires_grad=False, keep_grad=False, parents=(), rule=None):
        self.data = np.asarray(data, dtype=float)
        self.requires_grad, self.keep_grad = requires_grad, keep_grad
        self.parents, self.rule, self.grad = parents, rule, None

    @staticmethod
    def _op(data, parents, rule):
        needs = any(parent.requires_grad for parent in parents)
        return Tensor(data, needs, False, parents, rule if needs else None)

    def __add__(self, other):
        other = other if isinstance(other, Tensor) else Tensor(other)
        return self._op(self.data + other.data, (self, other), lambda g: (g, g))

    def __sub__(self, other):
        other = other if isinstance(other, Tensor) else Tensor(other)
        return self._op(self.data - other.data, (self, other), lambda g: (g, -g))

    def __mul__(self, other):
        other = other if isinstance(other, Tensor) else Tensor(other)
        return self._op(
            self.data * other.data, (self, other), lambda g: (g * other.data, g * self.data)
        )

    def __matmul__(self, other):
        return self._op(
            self.data @ other.data, (self, other), lambda g: (g @ other.data.T, self.data.T @ g)
        )

    def sum(self):
        return self._op(self.data.sum(), (self,), lambda g: (g * np.ones_like(self.data),))

    def backward(self, grad=None):
        if not self.requires_grad:
            raise RuntimeError("this tensor does not require a gradient")
        found = {self: np.ones_like(self.data) if grad is None else np.asarray(grad)}
        for node in self._sorted():
            g = found.pop(node)
            if node.keep_grad:
                node.grad = g if node.grad is None else node.grad + g
            if node.rule is None:
                continue
            for parent, part in zip(node.parents, node.rule(g), strict=True):
                if parent.requires_grad:
                    part = shrink(part, parent.data.shape)
                    found[parent] = found[parent] + part if parent in found else part

    def _sorted(self):
        order, seen = [], set()

        def visit(node):
            if node not in seen:
                seen.add(node)
                for parent in node.parents:
                    if parent.requires_grad:
                        visit(parent)
                order.append(node)

        visit(self)
        return reversed(order)


def shrink(g, shape):
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    for axis, size in enumerate(shape):
        if size == 1:
            g = g.sum(axis=axis, keepdims=True)
    return g
