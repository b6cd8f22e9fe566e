"""Nodes are dataclasses: a value, the parents, and one vector-Jacobian product a parent."""

from dataclasses import dataclass, field
from typing import Callable

import numpy as np


@dataclass(eq=False)
class Node:
    value: np.ndarray
    parents: list["Node"] = field(default_factory=list)
    vjps: list[Callable[[np.ndarray], np.ndarray]] = field(default_factory=list)
    grad: np.ndarray | None = None

    def __post_init__(self):
        self.value = np.asarray(self.value, dtype=float)

    def __add__(self, other):
        other = other if isinstance(other, Node) else Node(other)
        return Node(
            self.value + other.value,
            [self, other],
            [lambda g: fit(g, self), lambda g: fit(g, other)],
        )

    def __mul__(self, other):
        other = other if isinstance(other, Node) else Node(other)
        return Node(
            self.value * other.value,
            [self, other],
            [lambda g: fit(g * other.value, self), lambda g: fit(g * self.value, other)],
        )

    def __sub__(self, other):
        return self + other * -1.0

    def __matmul__(self, other):
        return Node(
            self.value @ other.value,
            [self, other],
            [lambda g: g @ other.value.T, lambda g: self.value.T @ g],
        )

    def exp(self):
        out = np.exp(self.value)
        return Node(out, [self], [lambda g: g * out])

    def mean(self):
        scale = 1 / self.value.size
        return Node(self.value.mean(), [self], [lambda g: g * scale * np.ones_like(self.value)])

    def backward(self, grad=None):
        self.grad = np.ones_like(self.value) if grad is None else np.asarray(grad)
        for node in self.ancestors():
            for parent, vjp in zip(node.parents, node.vjps, strict=True):
                part = vjp(node.grad)
                parent.grad = part if parent.grad is None else parent.grad + part

    def ancestors(self):
        """This node and all that it depends on, each before its parents."""
        order: list[Node] = []
        stack = [(self, False)]
        seen = set()
        while stack:
            node, finished = stack.pop()
            if finished:
                order.append(node)
            elif id(node) not in seen:
                seen.add(id(node))
                stack.append((node, True))
                stack.extend((parent, False) for parent in node.parents)
        return order[::-1]


def fit(g, node):
    for _ in range(g.ndim - node.value.ndim):
        g = g.sum(axis=0)
    for axis in range(g.ndim):
        if node.value.shape[axis] == 1:
            g = g.sum(axis=axis, keepdims=True)
    return g
