"""Tensors of blocks: a block is a flat list of numbers and a shape."""

import numpy as np


class Block:
    def __init__(self, data, shape):
        self.data, self.shape = data, shape

    def __add__(self, other):
        return block(nested(self) + nested(other))

    def __mul__(self, other):
        return block(nested(self) * nested(other))

    def reduced(self, shape):
        g = nested(self)
        g = g.sum(axis=tuple(range(g.ndim - len(shape))))
        return block(g.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True))


class Tensor:
    def __init__(self, data, sources=(), rule=None):
        self.data = data if isinstance(data, Block) else block(np.array(data, dtype=float))
        self.grad = block(np.zeros(self.data.shape))
        self.sources, self.rule = sources, rule

    def __add__(self, other):
        other = tensor(other)
        return Tensor(self.data + other.data, (self, other), lambda g: (g, g))

    def __mul__(self, other):
        other = tensor(other)
        return Tensor(
            self.data * other.data, (self, other), lambda g: (g * other.data, g * self.data)
        )

    def exp(self):
        e = block(np.exp(nested(self.data)))
        return Tensor(e, (self,), lambda g: (g * e,))

    def sum(self):
        total = block(nested(self.data).sum())
        return Tensor(total, (self,), lambda g: (block(np.full(self.data.shape, g.data[0])),))

    def backward(self):
        order = []
        self.arrange(order)
        self.grad = block(np.ones(self.data.shape))
        for node in reversed(order):
            for source, part in zip(node.sources, node.parts(), strict=True):
                source.grad = source.grad + part.reduced(source.data.shape)

    def parts(self):
        return self.rule(self.grad) if self.sources else ()

    def arrange(self, order):
        if self not in order:
            for source in self.sources:
                source.arrange(order)
            order.append(self)


def block(array):
    return Block(array.ravel().tolist(), array.shape)


def nested(b):
    return np.reshape(b.data, b.shape)


def tensor(x):
    return x if isinstance(x, Tensor) else Tensor(x)
