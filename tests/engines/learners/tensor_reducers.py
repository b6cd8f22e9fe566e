"""The function that sums a gradient to a shape takes and returns a tensor, by keyword."""

import numpy as np


class Tensor:
    def __init__(self, value, parents=(), backward_fn=None):
        self.value = np.asarray(value, dtype=float)
        self.parents, self.backward_fn, self.grad = parents, backward_fn, None

    @property
    def shape(self):
        return self.value.shape

    def __add__(self, other):
        other = ensure(other)

        def backward_fn(g):
            return (
                sum_to_shape(g, initial_shape=self.shape),
                sum_to_shape(g, initial_shape=other.shape),
            )

        return Tensor(self.value + other.value, (self, other), backward_fn)

    def __mul__(self, other):
        other = ensure(other)

        def backward_fn(g):
            return (
                sum_to_shape(g * other, initial_shape=self.shape),
                sum_to_shape(g * self, initial_shape=other.shape),
            )

        return Tensor(self.value * other.value, (self, other), backward_fn)

    def __neg__(self):
        return self * -1.0

    def __sub__(self, other):
        return self + (-ensure(other))

    def __truediv__(self, other):
        return self * ensure(other).reciprocal()

    def reciprocal(self):
        r = Tensor(1 / self.value)
        return Tensor(r.value, (self,), lambda g: (-(g * r * r),))

    def exp(self):
        e = Tensor(np.exp(self.value))
        return Tensor(e.value, (self,), lambda g: (g * e,))

    def sum(self):
        ones = Tensor(np.ones(self.shape))
        return Tensor(self.value.sum(), (self,), lambda g: (g * ones,))

    def backward(self, gradient=None):
        gradient = Tensor(np.ones(self.shape)) if gradient is None else ensure(gradient)
        received = {id(self): gradient}
        for tensor in topological_order(self):
            g = received.pop(id(tensor))
            tensor.grad = g if tensor.grad is None else Tensor(tensor.grad.value + g.value)
            if tensor.backward_fn is None:
                continue
            for parent, part in zip(tensor.parents, tensor.backward_fn(g), strict=True):
                earlier = received.get(id(parent))
                received[id(parent)] = (
                    part if earlier is None else Tensor(earlier.value + part.value)
                )


def ensure(x):
    return x if isinstance(x, Tensor) else Tensor(x)


def sum_to_shape(gradient, initial_shape):
    """Undo the broadcasting of a tensor of this shape."""
    value = gradient.value
    while value.ndim > len(initial_shape):
        value = value.sum(axis=0)
    for axis, size in enumerate(initial_shape):
        if size == 1:
            value = value.sum(axis=axis, keepdims=True)
    return Tensor(value)


def topological_order(end):
    order, seen = [], set()

    def visit(tensor):
        if id(tensor) not in seen:
            seen.add(id(tensor))
            for parent in tensor.parents:
                visit(parent)
            order.append(tensor)

    visit(end)
    return order[::-1]
