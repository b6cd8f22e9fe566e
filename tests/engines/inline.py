"""Un-broadcasting is spelled out in each rule, without a function for it."""

import numpy as np


class Tensor:
    def __init__(self, data, prev=()):
        self.data = np.array(data, dtype=np.float64)
        self.grad = np.zeros_like(self.data)
        self.prev, self.back = prev, None

    def __add__(self, other):
        other = other if isinstance(other, Tensor) else Tensor(other)
        out = Tensor(self.data + other.data, (self, other))

        def back():
            for t in (self, other):
                grad = out.grad
                while grad.ndim > t.data.ndim:
                    grad = grad.sum(axis=0)
                for i, dim in enumerate(t.data.shape):
                    if dim == 1:
                        grad = grad.sum(axis=i, keepdims=True)
                t.grad += grad

        out.back = back
        return out

    def __mul__(self, other):
        other = other if isinstance(other, Tensor) else Tensor(other)
        out = Tensor(self.data * other.data, (self, other))

        def back():
            for t, factor in ((self, other.data), (other, self.data)):
                grad = out.grad * factor
                while grad.ndim > t.data.ndim:
                    grad = grad.sum(axis=0)
                for i, dim in enumerate(t.data.shape):
                    if dim == 1:
                        grad = grad.sum(axis=i, keepdims=True)
                t.grad += grad

        out.back = back
        return out

    def __matmul__(self, other):
        out = Tensor(np.matmul(self.data, other.data), (self, other))

        def back():
            self.grad += np.matmul(out.grad, other.data.T)
            other.grad += np.matmul(self.data.T, out.grad)

        out.back = back
        return out

    def mean(self):
        out = Tensor(np.mean(self.data), (self,))

        def back():
            self.grad += np.ones_like(self.data) * out.grad / self.data.size

        out.back = back
        return out

    def backward(self):
        topo = []

        def build(tensor):
            if all(tensor is not other for other in topo):
                for child in tensor.prev:
                    build(child)
                topo.append(tensor)

        build(self)
        self.grad = np.ones_like(self.data)
        for tensor in reversed(topo):
            if tensor.back:
                tensor.back()
