"""Functions with static `forward(ctx, ...)` and `backward(ctx, grad)`, called by `apply`."""

import numpy as np


class Context:
    def save_for_backward(self, *arrays):
        self.saved = arrays


class Function:
    @classmethod
    def apply(cls, *tensors):
        ctx = Context()
        out = Tensor(cls.forward(ctx, *(t.data for t in tensors)))
        out.ctx, out.function, out.inputs = ctx, cls, tensors
        return out


class Add(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a.shape, b.shape)
        return a + b

    @staticmethod
    def backward(ctx, grad):
        shape_a, shape_b = ctx.saved
        return expand_back(grad, shape_a), expand_back(grad, shape_b)


class Mul(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved
        return expand_back(grad * b, a.shape), expand_back(grad * a, b.shape)


class MatMul(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved
        return grad @ b.T, a.T @ grad


class ReLU(Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a > 0)
        return np.where(a > 0, a, 0.0)

    @staticmethod
    def backward(ctx, grad):
        (positive,) = ctx.saved
        return (grad * positive,)


class Sum(Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a.shape)
        return a.sum()

    @staticmethod
    def backward(ctx, grad):
        return (np.full(ctx.saved[0], grad),)


class Tensor:
    def __init__(self, data):
        self.data, self.grad = np.asarray(data, dtype=np.float64), None
        self.function, self.inputs = None, ()

    def __add__(self, other):
        return Add.apply(self, wrap(other))

    def __mul__(self, other):
        return Mul.apply(self, wrap(other))

    def __matmul__(self, other):
        return MatMul.apply(self, wrap(other))

    def relu(self):
        return ReLU.apply(self)

    def sum(self):
        return Sum.apply(self)

    def backward(self, grad=None):
        self.grad = np.ones_like(self.data) if grad is None else np.asarray(grad)
        for tensor in reversed(list(walk(self, set()))):
            if tensor.function is None:
                continue
            for source, part in zip(
                tensor.inputs, tensor.function.backward(tensor.ctx, tensor.grad), strict=True
            ):
                source.grad = part if source.grad is None else source.grad + part


def walk(tensor, seen):
    if tensor in seen:
        return
    seen.add(tensor)
    for source in tensor.inputs:
        yield from walk(source, seen)
    yield tensor


def wrap(x):
    return x if isinstance(x, Tensor) else Tensor(x)


def expand_back(grad, shape):
    lead = grad.ndim - len(shape)
    axes = tuple(i for i in range(grad.ndim) if i < lead or shape[i - lead] == 1)
    return grad.sum(axis=axes).reshape(shape)
