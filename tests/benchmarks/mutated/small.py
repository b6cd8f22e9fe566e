"""A small engine: what the mutation tools mutate."""

import numpy as np


def unbroadcast(gradient, shape):
    """Sum a gradient over the axes that broadcasting added or stretched."""
    while gradient.ndim > len(shape):
        gradient = gradient.sum(axis=0)
    for axis, length in enumerate(shape):
        if length == 1 and gradient.shape[axis] != 1:
            gradient = gradient.sum(axis=axis, keepdims=True)
    return gradient


class Tensor:
    """An array that remembers what it was computed from."""

    def __init__(self, data, parents=(), rule=None):
        self.data = np.asarray(data, dtype=np.float64)
        self.grad = None
        self.parents = parents
        self.rule = rule

    @property
    def shape(self):
        return self.data.shape

    def backward(self, cotangent=None):
        """Walk back, every node after all that were computed from it."""
        if cotangent is None:
            if self.data.size != 1:
                raise ValueError("only a scalar needs no cotangent")
            cotangent = np.ones(self.shape)
        order, seen, pending = [], set(), [(self, False)]
        while pending:
            node, done = pending.pop()
            if done:
                order.append(node)
            elif id(node) not in seen:
                seen.add(id(node))
                pending.append((node, True))
                pending.extend((parent, False) for parent in node.parents)
        arrived = {id(self): np.asarray(cotangent, dtype=np.float64)}
        for node in reversed(order):
            gradient = arrived.pop(id(node))
            if node.rule is None:
                node.grad = gradient if node.grad is None else node.grad + gradient
                continue
            for parent, handed in zip(node.parents, node.rule(gradient), strict=True):
                handed = unbroadcast(handed, parent.shape)
                known = arrived.get(id(parent))
                arrived[id(parent)] = handed if known is None else known + handed

    def __add__(self, other):
        other = tensor(other)
        return Tensor(self.data + other.data, (self, other), lambda g: (g, g))

    def __sub__(self, other):
        other = tensor(other)
        return Tensor(self.data - other.data, (self, other), lambda g: (g, -g))

    def __mul__(self, other):
        other = tensor(other)
        a, b = self.data, other.data
        return Tensor(a * b, (self, other), lambda g: (g * b, g * a))

    def __truediv__(self, other):
        other = tensor(other)
        a, b = self.data, other.data
        return Tensor(a / b, (self, other), lambda g: (g / b, -g * a / b**2))

    def __pow__(self, power):
        a = self.data
        return Tensor(a**power, (self,), lambda g: (g * power * a ** (power - 1),))

    def __neg__(self):
        return Tensor(-self.data, (self,), lambda g: (-g,))

    def __matmul__(self, other):
        a, b = self.data, other.data
        return Tensor(a @ b, (self, other), lambda g: (g @ b.T, a.T @ g))

    def __getitem__(self, index):
        def rule(g):
            whole = np.zeros(self.shape)
            np.add.at(whole, index, g)
            return (whole,)

        return Tensor(self.data[index], (self,), rule)

    __radd__ = __add__
    __rmul__ = __mul__

    def sum(self, axis=None, keepdims=False):
        def rule(g):
            if axis is not None and not keepdims:
                g = np.expand_dims(g, axis)
            return (np.broadcast_to(g, self.shape),)

        return Tensor(self.data.sum(axis=axis, keepdims=keepdims), (self,), rule)

    def mean(self, axis=None):
        count = self.data.size if axis is None else self.shape[axis]
        return self.sum(axis) * (1.0 / count)

    def max(self):
        at = self.data == self.data.max()
        return Tensor(self.data.max(), (self,), lambda g: (g * at / at.sum(),))

    def exp(self):
        out = np.exp(self.data)
        return Tensor(out, (self,), lambda g: (g * out,))

    def log(self):
        a = self.data
        return Tensor(np.log(a), (self,), lambda g: (g / a,))

    def tanh(self):
        out = np.tanh(self.data)
        return Tensor(out, (self,), lambda g: (g * (1 - out**2),))

    def relu(self):
        positive = self.data > 0
        return Tensor(self.data * positive, (self,), lambda g: (g * positive,))

    def reshape(self, *shape):
        return Tensor(self.data.reshape(shape), (self,), lambda g: (g.reshape(self.shape),))

    def transpose(self):
        return Tensor(self.data.T, (self,), lambda g: (g.T,))


def tensor(value):
    """The value as a tensor."""
    return value if isinstance(value, Tensor) else Tensor(value)


def softmax(x):
    """Along the last axis, shifted by the largest entry so that nothing overflows."""
    shifted = np.exp(x.data - x.data.max(axis=-1, keepdims=True))
    out = shifted / shifted.sum(axis=-1, keepdims=True)

    def rule(g):
        inner = (g * out).sum(axis=-1, keepdims=True)
        return (out * (g - inner),)

    return Tensor(out, (x,), rule)


def mse(prediction, target):
    """The mean of the squared differences."""
    return ((prediction - target) ** 2).mean()


class SGD:
    """Gradient descent, with momentum if you like."""

    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.velocity = [np.zeros(p.shape) for p in self.parameters]

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    def step(self):
        for i, p in enumerate(self.parameters):
            if p.grad is None:
                continue
            self.velocity[i] = self.momentum * self.velocity[i] + p.grad
            p.data = p.data - self.lr * self.velocity[i]
