"""A graph is built once; `run` computes its values, and `backprop` the gradients of its inputs."""

import numpy as np


class Node:
    def __init__(self, *inputs):
        self.inputs, self.value, self.gradient = inputs, None, None

    def __add__(self, other):
        return Plus(self, other)

    def __mul__(self, other):
        return Times(self, other)

    def __matmul__(self, other):
        return Dot(self, other)

    def relu(self):
        return Rectify(self)

    def sum(self):
        return Total(self)


class Input(Node):
    def __init__(self, value):
        super().__init__()
        self.value = np.asarray(value, dtype=float)


class Plus(Node):
    def compute(self, a, b):
        return a + b

    def pull(self, g, a, b):
        return g, g


class Times(Node):
    def compute(self, a, b):
        return a * b

    def pull(self, g, a, b):
        return g * b, g * a


class Dot(Node):
    def compute(self, a, b):
        return a @ b

    def pull(self, g, a, b):
        return g @ b.T, a.T @ g


class Rectify(Node):
    def compute(self, a):
        return np.maximum(a, 0.0)

    def pull(self, g, a):
        return (g * (a > 0.0),)


class Total(Node):
    def compute(self, a):
        return a.sum()

    def pull(self, g, a):
        return (g * np.ones_like(a),)


def plan(node, order):
    """List the nodes that a node needs, in the order in which they are computed."""
    if node not in order:
        for source in node.inputs:
            plan(source, order)
        order.append(node)
    return order


def run(node):
    """Compute a node, and all that it needs."""
    for step in plan(node, []):
        if step.inputs:
            step.value = step.compute(*(source.value for source in step.inputs))
    return node.value


def backprop(node, cotangent=None):
    """Set `gradient` on every node that a node needs."""
    run(node)
    order = plan(node, [])
    for step in order:
        step.gradient = np.zeros_like(step.value)
    node.gradient = np.ones_like(node.value) if cotangent is None else np.asarray(cotangent)
    for step in reversed(order):
        if step.inputs:
            parts = step.pull(step.gradient, *(source.value for source in step.inputs))
            for source, part in zip(step.inputs, parts, strict=True):
                source.gradient = source.gradient + sum_over(part, source.value.shape)


def sum_over(g, shape):
    added = g.ndim - len(shape)
    if added:
        g = g.sum(axis=tuple(range(added)))
    ones = tuple(axis for axis, n in enumerate(shape) if n == 1)
    return g.sum(axis=ones, keepdims=True)
