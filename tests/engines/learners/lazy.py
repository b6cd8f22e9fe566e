"""Nothing is computed until `realize`: an op only writes down what to do."""

import numpy as np

FORWARD = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "exp": lambda a: np.exp(a),
    "tanh": lambda a: np.tanh(a),
    "sum": lambda a: np.sum(a),
}
BACKWARD = {
    "add": lambda g, y, a, b: (g, g),
    "sub": lambda g, y, a, b: (g, -g),
    "mul": lambda g, y, a, b: (g * b, g * a),
    "exp": lambda g, y, a: (g * y,),
    "tanh": lambda g, y, a: (g * (1 - y * y),),
    "sum": lambda g, y, a: (np.broadcast_to(g, a.shape),),
}


class LazyTensor:
    def __init__(self, data=None, op=None, sources=()):
        self._data = None if data is None else np.array(data, dtype=float)
        self.op, self.sources, self.grad = op, sources, None

    def realize(self):
        if self._data is None:
            self._data = FORWARD[self.op](*(s.realize()._data for s in self.sources))
        return self

    def numpy(self):
        return self.realize()._data

    def __add__(self, other):
        return LazyTensor(op="add", sources=(self, lazy(other)))

    def __sub__(self, other):
        return LazyTensor(op="sub", sources=(self, lazy(other)))

    def __mul__(self, other):
        return LazyTensor(op="mul", sources=(self, lazy(other)))

    def exp(self):
        return LazyTensor(op="exp", sources=(self,))

    def tanh(self):
        return LazyTensor(op="tanh", sources=(self,))

    def sum(self):
        return LazyTensor(op="sum", sources=(self,))

    def backward(self, grad=None):
        y = self.numpy()
        order = []
        self._schedule(order)
        grads = {self: np.ones_like(y) if grad is None else np.asarray(grad, dtype=float)}
        for node in reversed(order):
            g = grads[node]
            if not node.sources:
                node.grad = g if node.grad is None else node.grad + g
                continue
            values = [source.numpy() for source in node.sources]
            parts = BACKWARD[node.op](g, node.numpy(), *values)
            for source, part in zip(node.sources, parts, strict=True):
                part = squeeze_to(part, source.numpy().shape)
                grads[source] = grads[source] + part if source in grads else part

    def _schedule(self, order):
        if self not in order:
            for source in self.sources:
                source._schedule(order)
            order.append(self)


def lazy(x):
    return x if isinstance(x, LazyTensor) else LazyTensor(x)


def squeeze_to(g, shape):
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    return g.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)
