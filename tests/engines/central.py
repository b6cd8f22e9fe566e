"""Un-broadcasting in one place: each tensor sums the gradients that it receives to its shape."""

import numpy as np


def reduce_broadcast(grad, shape):
    if grad.shape == shape:
        return grad
    grad = grad.sum(axis=tuple(range(grad.ndim - len(shape))))
    ones = tuple(i for i, n in enumerate(shape) if n == 1 and grad.shape[i] > 1)
    return grad.sum(axis=ones, keepdims=True) if ones else grad


class Operation:
    def __init__(self, *variables):
        self.variables = variables

    def backward(self, grad):
        for index, var in enumerate(self.variables):
            part = reduce_broadcast(self.backward_var(grad, index), var.data.shape)
            var.grad = part if var.grad is None else var.grad + part


class Add(Operation):
    def __call__(self):
        a, b = self.variables
        return a.data + b.data

    def backward_var(self, grad, index):
        return grad


class Multiply(Operation):
    def __call__(self):
        a, b = self.variables
        return a.data * b.data

    def backward_var(self, grad, index):
        a, b = self.variables
        return grad * (b.data if index == 0 else a.data)


class Tanh(Operation):
    def __call__(self):
        self.value = np.tanh(self.variables[0].data)
        return self.value

    def backward_var(self, grad, index):
        return grad * (1 - self.value**2)


class Tensor:
    def __init__(self, data, creator=None):
        self.data, self.grad, self.creator = np.asarray(data, dtype=float), None, creator

    @classmethod
    def _op(cls, kind, *operands):
        operation = kind(*(x if isinstance(x, cls) else cls(x) for x in operands))
        return cls(operation(), operation)

    def __add__(self, other):
        return self._op(Add, self, other)

    def __mul__(self, other):
        return self._op(Multiply, self, other)

    def tanh(self):
        return self._op(Tanh, self)

    def null_grad(self):
        self.grad = None

    def backward(self, grad=None):
        order = []

        def visit(tensor):
            if tensor.creator is not None and tensor not in order:
                for parent in tensor.creator.variables:
                    visit(parent)
                order.append(tensor)

        visit(self)
        self.grad = np.ones_like(self.data) if grad is None else np.asarray(grad)
        for tensor in order[::-1]:
            tensor.creator.backward(tensor.grad)
