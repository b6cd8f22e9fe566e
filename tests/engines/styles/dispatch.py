"""One table of forward rules and one of backward rules, looked up by the op's name."""

import numpy as np

FORWARD = {
    "plus": lambda a, b: a + b,
    "minus": lambda a, b: a - b,
    "times": lambda a, b: a * b,
    "over": lambda a, b: a / b,
    "matmul": lambda a, b: a @ b,
    "relu": lambda a: np.maximum(a, 0.0),
    "sum": lambda a: np.sum(a),
}
BACKWARD = {
    "plus": lambda g, out, a, b: (unspread(g, a.shape), unspread(g, b.shape)),
    "minus": lambda g, out, a, b: (unspread(g, a.shape), unspread(-g, b.shape)),
    "times": lambda g, out, a, b: (unspread(g * b, a.shape), unspread(g * a, b.shape)),
    "over": lambda g, out, a, b: (
        unspread(g / b, a.shape),
        unspread(-g * out / b, b.shape),
    ),
    "matmul": lambda g, out, a, b: (g @ b.T, a.T @ g),
    "relu": lambda g, out, a: (g * (a > 0),),
    "sum": lambda g, out, a: (np.full(a.shape, g),),
}


def unspread(g, shape):
    axes = tuple(range(g.ndim - len(shape)))
    g = g.sum(axis=axes) if axes else g
    for i, n in enumerate(shape):
        g = g.sum(axis=i, keepdims=True) if n == 1 else g
    return g


class Node:
    def __init__(self, data, op=None, args=()):
        self.data = np.array(data, dtype=float)
        self.op, self.args = op, args
        self.grad = np.zeros_like(self.data)

    def apply(self, op, *others):
        args = (self, *(o if isinstance(o, Node) else Node(o) for o in others))
        return Node(FORWARD[op](*(arg.data for arg in args)), op, args)

    def __add__(self, other):
        return self.apply("plus", other)

    def __sub__(self, other):
        return self.apply("minus", other)

    def __mul__(self, other):
        return self.apply("times", other)

    def __truediv__(self, other):
        return self.apply("over", other)

    def __matmul__(self, other):
        return self.apply("matmul", other)

    def relu(self):
        return self.apply("relu")

    def sum(self):
        return self.apply("sum")

    def backward(self):
        order, done = [], set()

        def visit(node):
            if node not in done:
                done.add(node)
                for arg in node.args:
                    visit(arg)
                order.append(node)

        visit(self)
        for node in order:
            if node.op:
                node.grad = np.zeros_like(node.data)
        self.grad = np.ones_like(self.data)
        for node in reversed(order):
            if node.op:
                values = [arg.data for arg in node.args]
                for arg, g in zip(
                    node.args, BACKWARD[node.op](node.grad, node.data, *values), strict=True
                ):
                    arg.grad += g
