"""An engine with the interface of TinyTorch: functions with `apply`, and gradients as arrays."""

import numpy as np


class Function:
    def __init__(self, *tensors):
        self.saved_tensors = tensors


class AddBackward(Function):
    def apply(self, grad_output):
        a, b = self.saved_tensors
        return fit(grad_output, a.shape), fit(grad_output, b.shape)


class MulBackward(Function):
    def apply(self, grad_output):
        a, b = self.saved_tensors
        return fit(grad_output * b.data, a.shape), fit(grad_output * a.data, b.shape)


class MatmulBackward(Function):
    def apply(self, grad_output):
        a, b = self.saved_tensors
        return grad_output @ b.data.T, a.data.T @ grad_output


class ReLUBackward(Function):
    def apply(self, grad_output):
        (a,) = self.saved_tensors
        return (grad_output * (a.data > 0),)


class SumBackward(Function):
    def apply(self, grad_output):
        (a,) = self.saved_tensors
        return (np.ones_like(a.data) * grad_output,)


class Tensor:
    def __init__(self, data, requires_grad=False):
        self.data = np.array(data, dtype=np.float64)
        self.requires_grad, self.grad, self._grad_fn = requires_grad, None, None

    @property
    def shape(self):
        return self.data.shape

    def _made(self, data, function):
        out = Tensor(data, any(t.requires_grad for t in function.saved_tensors))
        out._grad_fn = function if out.requires_grad else None
        return out

    def __add__(self, other):
        other = other if isinstance(other, Tensor) else Tensor(other)
        return self._made(self.data + other.data, AddBackward(self, other))

    def __mul__(self, other):
        other = other if isinstance(other, Tensor) else Tensor(other)
        return self._made(self.data * other.data, MulBackward(self, other))

    def matmul(self, other):
        return self._made(self.data @ other.data, MatmulBackward(self, other))

    __matmul__, __radd__, __rmul__ = matmul, __add__, __mul__

    def relu(self):
        return self._made(np.maximum(self.data, 0), ReLUBackward(self))

    def sum(self):
        return self._made(self.data.sum(), SumBackward(self))

    def zero_grad(self):
        self.grad = None

    def backward(self, gradient=None):
        if not self.requires_grad:
            return
        gradient = np.ones_like(self.data) if gradient is None else gradient
        self.grad = gradient if self.grad is None else self.grad + gradient
        if self._grad_fn is not None:
            parts = self._grad_fn.apply(gradient)
            for tensor, part in zip(self._grad_fn.saved_tensors, parts, strict=True):
                tensor.backward(part)


def fit(grad, shape):
    while grad.ndim > len(shape):
        grad = grad.sum(axis=0)
    for axis, size in enumerate(shape):
        if size == 1:
            grad = grad.sum(axis=axis, keepdims=True)
    return grad
