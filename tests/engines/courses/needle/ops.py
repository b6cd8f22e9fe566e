"""The ops of the first homework: each computes arrays forward, and tensors backward."""

import numpy

from needle.autograd import Op, Tensor


class EWiseAdd(Op):
    def compute(self, a, b):
        return a + b

    def gradient(self, out_grad, node):
        return out_grad, out_grad


class AddScalar(Op):
    def __init__(self, scalar):
        self.scalar = scalar

    def compute(self, a):
        return a + self.scalar

    def gradient(self, out_grad, node):
        return out_grad


class EWiseMul(Op):
    def compute(self, a, b):
        return a * b

    def gradient(self, out_grad, node):
        lhs, rhs = node.inputs
        return out_grad * rhs, out_grad * lhs


class MulScalar(Op):
    def __init__(self, scalar):
        self.scalar = scalar

    def compute(self, a):
        return a * self.scalar

    def gradient(self, out_grad, node):
        return out_grad * self.scalar


class MatMul(Op):
    def compute(self, a, b):
        return a @ b

    def gradient(self, out_grad, node):
        a, b = node.inputs
        return out_grad @ b.transpose(), a.transpose() @ out_grad


class Transpose(Op):
    def __init__(self, axes=None):
        if axes is not None and len(axes) != 2:
            raise ValueError("transpose swaps two axes")
        self.axes = axes

    def compute(self, a):
        first, second = self.axes or (-1, -2)
        return numpy.swapaxes(a, first, second)

    def gradient(self, out_grad, node):
        return out_grad.transpose(self.axes)


class Reshape(Op):
    def __init__(self, shape):
        self.shape = shape

    def compute(self, a):
        return a.reshape(self.shape)

    def gradient(self, out_grad, node):
        return out_grad.reshape(node.inputs[0].shape)


class BroadcastTo(Op):
    def __init__(self, shape):
        self.shape = shape

    def compute(self, a):
        return numpy.broadcast_to(a, self.shape)

    def gradient(self, out_grad, node):
        shape = node.inputs[0].shape
        lead = len(self.shape) - len(shape)
        axes = (i for i in range(len(self.shape)) if i < lead or shape[i - lead] == 1)
        return out_grad.sum(tuple(axes)).reshape(shape)


class Summation(Op):
    def __init__(self, axes=None):
        self.axes = axes

    def compute(self, a):
        return a.sum(axis=self.axes)

    def gradient(self, out_grad, node):
        shape = node.inputs[0].shape
        axes = range(len(shape)) if self.axes is None else self.axes
        axes = (axes,) if isinstance(axes, int) else tuple(axes)
        kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
        return out_grad.reshape(kept).broadcast_to(shape)


class ReLU(Op):
    def compute(self, a):
        return numpy.maximum(a, 0)

    def gradient(self, out_grad, node):
        return out_grad * Tensor(node.inputs[0].numpy() > 0)


def relu(a):
    return ReLU()(a)
