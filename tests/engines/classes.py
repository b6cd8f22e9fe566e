"""A class per op with forward and backward, which saves its operands; gradients are tensors."""

import numpy as np


def sum_to(x, shape):
    lead = x.ndim - len(shape)
    axes = tuple(i + lead for i, n in enumerate(shape) if n == 1)
    y = x.sum(axis=tuple(range(lead)) + axes, keepdims=True)
    return y.squeeze(tuple(range(lead))) if lead else y


class Function:
    @classmethod
    def apply(cls, *inputs):
        fn = cls()
        fn.inputs = [x if isinstance(x, Variable) else Variable(x) for x in inputs]
        fn.saved = [x.data for x in fn.inputs]
        fn.generation = max(x.generation for x in fn.inputs)
        return Variable(fn.forward(*fn.saved), fn)


class Add(Function):
    def forward(self, x0, x1):
        return x0 + x1

    def backward(self, gy):
        x0, x1 = self.saved
        return sum_to(gy, x0.shape), sum_to(gy, x1.shape)


class Sub(Function):
    def forward(self, x0, x1):
        return x0 - x1

    def backward(self, gy):
        x0, x1 = self.saved
        return sum_to(gy, x0.shape), sum_to(-gy, x1.shape)


class Div(Function):
    def forward(self, x0, x1):
        return x0 / x1

    def backward(self, gy):
        x0, x1 = self.saved
        return sum_to(gy / x1, x0.shape), sum_to(gy * (-x0 / x1**2), x1.shape)


class MatMul(Function):
    def forward(self, x, w):
        return x.dot(w)

    def backward(self, gy):
        x, w = self.saved
        return gy.dot(w.T), x.T.dot(gy)


class Variable:
    def __init__(self, data, creator=None):
        self.data, self.creator = np.asarray(data, dtype=float), creator
        self.grad, self.generation = None, creator.generation + 1 if creator else 0

    def __add__(self, other):
        return Add.apply(self, other)

    def __sub__(self, other):
        return Sub.apply(self, other)

    def __truediv__(self, other):
        return Div.apply(self, other)

    def __matmul__(self, other):
        return MatMul.apply(self, other)

    def cleargrad(self):
        self.grad = None

    def backward(self):
        self.grad, pending = Variable(np.ones_like(self.data)), {self}
        while pending:
            y = max(pending, key=lambda x: x.generation)
            pending.remove(y)
            gxs = y.creator.backward(y.grad.data) if y.creator else ()
            for x, gx in zip(y.creator.inputs if y.creator else (), gxs, strict=True):
                x.grad = Variable(gx if x.grad is None else x.grad.data + gx)
                pending.add(x)
