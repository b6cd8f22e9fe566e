"""The optimizer walks back through the graph, and takes its step as it goes."""

import numpy as np


class Parameter:
    def __init__(self, data):
        self.data = np.array(data, dtype=float)
        self.trail = []

    def __add__(self, other):
        return Result(self.data + other.data, [(self, lambda g: g), (other, lambda g: g)])

    def __mul__(self, other):
        trail = [(self, lambda g: g * other.data), (other, lambda g: g * self.data)]
        return Result(self.data * other.data, trail)

    def __pow__(self, k):
        return Result(self.data**k, [(self, lambda g: g * k * self.data ** (k - 1))])

    def __matmul__(self, other):
        trail = [(self, lambda g: g @ other.data.T), (other, lambda g: self.data.T @ g)]
        return Result(self.data @ other.data, trail)

    def sum(self):
        return Result(self.data.sum(), [(self, lambda g: g * np.ones_like(self.data))])


class Result(Parameter):
    def __init__(self, data, trail):
        super().__init__(data)
        self.trail = trail


class SGD:
    def __init__(self, params, lr=0.1):
        self.params, self.lr = list(params), lr

    def minimize(self, loss):
        """One step down: find the gradients of a scalar loss, and subtract them."""
        if loss.data.shape != ():
            raise ValueError("only a scalar can be minimized")
        order = []

        def visit(node):
            if not any(node is seen for seen in order):
                for parent, _ in node.trail:
                    visit(parent)
                order.append(node)

        visit(loss)
        grads = {id(loss): np.array(1.0)}
        for node in reversed(order):
            for parent, rule in node.trail:
                g = narrow(rule(grads[id(node)]), parent.data.shape)
                grads[id(parent)] = grads[id(parent)] + g if id(parent) in grads else g
        for param in self.params:
            if id(param) in grads:
                param.data = param.data - self.lr * grads[id(param)]


def narrow(g, shape):
    while g.ndim > len(shape):
        g = g.sum(axis=0)
    for axis, size in enumerate(shape):
        if size == 1 and g.shape[axis] != 1:
            g = g.sum(axis=axis, keepdims=True)
    return g
