"""The graph is walked by visitors: one clears the gradients, the next pulls them back."""

import numpy as np


class Node:
    grad = None

    def __add__(self, other):
        return Op(self.value + lifted(other).value, (self, lifted(other)), lambda g, a, b: (g, g))

    def __mul__(self, other):
        other = lifted(other)
        return Op(self.value * other.value, (self, other), lambda g, a, b: (g * b, g * a))

    def tanh(self):
        t = np.tanh(self.value)
        return Op(t, (self,), lambda g, a: (g * (1 - t * t),))

    def sum(self):
        return Op(self.value.sum(), (self,), lambda g, a: (np.broadcast_to(g, a.shape),))


class Constant(Node):
    def __init__(self, value):
        self.value = np.array(value, dtype=float)


class Parameter(Constant):
    pass


class Op(Node):
    def __init__(self, value, operands, rule):
        self.value, self.operands, self.rule = value, operands, rule


class Clear:
    """Set the gradient of every node to zeros, and of the first one to ones."""

    def __init__(self):
        self.is_first = True

    def __call__(self, node):
        node.grad = np.full(np.shape(node.value), float(self.is_first))
        self.is_first = False


class Pull:
    """Hand the gradient of a node on to its operands."""

    def __call__(self, node):
        if isinstance(node, Op):
            parts = node.rule(node.grad, *(operand.value for operand in node.operands))
            for operand, part in zip(node.operands, parts, strict=True):
                operand.grad = operand.grad + summed_to(part, np.shape(operand.value))


def walk(end, visit):
    order = []

    def find(node):
        if node not in order:
            for operand in getattr(node, "operands", ()):
                find(operand)
            order.append(node)

    find(end)
    for node in reversed(order):
        visit(node)


def lifted(x):
    return x if isinstance(x, Node) else Constant(x)


def summed_to(g, shape):
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    return g.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)
