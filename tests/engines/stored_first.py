"""The first gradient is stored without a copy, and later ones are added to it."""

import numpy as np


class Tensor:
    def __init__(self, data, requires_grad=False, parents=(), grad_fn=None):
        self.data = np.asarray(data, dtype=np.float64)
        self.requires_grad = requires_grad or any(parent.requires_grad for parent in parents)
        self.grad = None
        self._parents, self._grad_fn = parents, grad_fn

    @staticmethod
    def unbroadcast(grad, shape):
        extra = grad.ndim - len(shape)
        axes = [i for i in range(grad.ndim) if i < extra or shape[i - extra] == 1]
        return grad.sum(axis=tuple(axes), keepdims=True).reshape(shape)

    def _accumulate_grad(self, grad):
        if not self.requires_grad:
            return
        if self.grad is None:
            self.grad = grad
        else:
            self.grad = self.grad + grad

    def __add__(self, other):
        other = _as_tensor(other)

        def grad_fn(grad):
            self._accumulate_grad(Tensor.unbroadcast(grad, self.data.shape))
            other._accumulate_grad(Tensor.unbroadcast(grad, other.data.shape))

        return Tensor(self.data + other.data, parents=(self, other), grad_fn=grad_fn)

    def __mul__(self, other):
        other = _as_tensor(other)

        def grad_fn(grad):
            self._accumulate_grad(Tensor.unbroadcast(grad * other.data, self.data.shape))
            other._accumulate_grad(Tensor.unbroadcast(grad * self.data, other.data.shape))

        return Tensor(self.data * other.data, parents=(self, other), grad_fn=grad_fn)

    def relu(self):
        def grad_fn(grad):
            self._accumulate_grad(grad * (self.data > 0))

        return Tensor(np.maximum(self.data, 0), parents=(self,), grad_fn=grad_fn)

    def sum(self):
        def grad_fn(grad):
            self._accumulate_grad(np.broadcast_to(grad, self.data.shape))

        return Tensor(self.data.sum(), parents=(self,), grad_fn=grad_fn)

    def backward(self, grad=None):
        if grad is None:
            grad = np.ones_like(self.data)
        order, visited = [], set()

        def visit(node):
            if id(node) not in visited:
                visited.add(id(node))
                for parent in node._parents:
                    visit(parent)
                order.append(node)

        visit(self)
        self._accumulate_grad(np.asarray(grad))
        for node in reversed(order):
            if node._grad_fn is not None and node.grad is not None:
                node._grad_fn(node.grad)


def _as_tensor(value):
    return value if isinstance(value, Tensor) else Tensor(value)
