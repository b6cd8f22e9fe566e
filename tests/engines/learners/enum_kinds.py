"""A tensor has the kind of its op, an enumeration; one function has the rules of all kinds."""

from enum import Enum, auto

import numpy as np


class Kind(Enum):
    LEAF = auto()
    ADD = auto()
    SUB = auto()
    MUL = auto()
    DOT = auto()
    RELU = auto()
    SUM = auto()


class Tensor:
    def __init__(self, data, kind=Kind.LEAF, inputs=()):
        self.data = np.array(data, dtype=float)
        self.kind, self.inputs = kind, inputs
        self.grad = np.zeros(self.data.shape)

    def __add__(self, other):
        return Tensor(self.data + _t(other).data, Kind.ADD, (self, _t(other)))

    def __sub__(self, other):
        return Tensor(self.data - _t(other).data, Kind.SUB, (self, _t(other)))

    def __mul__(self, other):
        other = _t(other)
        return Tensor(self.data * other.data, Kind.MUL, (self, other))

    def __matmul__(self, other):
        return Tensor(self.data @ other.data, Kind.DOT, (self, other))

    def relu(self):
        return Tensor(self.data * (self.data > 0), Kind.RELU, (self,))

    def sum(self):
        return Tensor(self.data.sum(), Kind.SUM, (self,))

    def backward(self, gradient=1.0):
        self.grad = self.grad + gradient * np.ones(self.data.shape)
        for tensor in reversed(_sorted(self)):
            for operand, part in zip(tensor.inputs, _parts(tensor), strict=True):
                operand.grad = operand.grad + _shrink(part, operand.data.shape)


def _parts(tensor):
    g, values = tensor.grad, [operand.data for operand in tensor.inputs]
    match tensor.kind:
        case Kind.LEAF:
            return []
        case Kind.ADD:
            return [g, g]
        case Kind.SUB:
            return [g, -g]
        case Kind.MUL:
            return [g * values[1], g * values[0]]
        case Kind.DOT:
            return [g @ values[1].T, values[0].T @ g]
        case Kind.RELU:
            return [g * (values[0] > 0)]
        case Kind.SUM:
            return [g * np.ones(values[0].shape)]


def _t(x):
    return x if isinstance(x, Tensor) else Tensor(x)


def _shrink(g, shape):
    while g.ndim > len(shape):
        g = g.sum(axis=0)
    for axis, size in enumerate(shape):
        if size == 1:
            g = g.sum(axis=axis, keepdims=True)
    return g


def _sorted(end):
    order, done = [], set()

    def visit(tensor):
        if id(tensor) in done:
            return
        done.add(id(tensor))
        for operand in tensor.inputs:
            visit(operand)
        order.append(tensor)

    visit(end)
    return order
