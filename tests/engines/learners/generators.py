"""An op is a generator: it yields its value, is sent the gradient, and adds to its operands'."""

import numpy as np

TAPE = []


class Var:
    def __init__(self, value):
        self.value = np.asarray(value, dtype=float)
        self.grad = np.zeros_like(self.value)

    def __add__(self, other):
        return start(add, self, other)

    def __mul__(self, other):
        return start(mul, self, other)

    def __pow__(self, k):
        return start(power, self, k)

    def tanh(self):
        return start(tanh, self)

    def sum(self):
        return start(total, self)

    def backward(self, seed=None):
        self.grad = self.grad + (np.ones_like(self.value) if seed is None else seed)
        while TAPE:
            generator, out = TAPE.pop()
            try:
                generator.send(out.grad)
            except StopIteration:
                pass


def start(op, *operands):
    generator = op(*(x if isinstance(x, Var) or op is power else Var(x) for x in operands))
    out = Var(next(generator))
    TAPE.append((generator, out))
    return out


def add(a, b):
    g = yield a.value + b.value
    a.grad = a.grad + trim(g, a)
    b.grad = b.grad + trim(g, b)


def mul(a, b):
    g = yield a.value * b.value
    a.grad = a.grad + trim(g * b.value, a)
    b.grad = b.grad + trim(g * a.value, b)


def power(a, k):
    g = yield a.value**k
    a.grad = a.grad + g * k * a.value ** (k - 1)


def tanh(a):
    t = np.tanh(a.value)
    g = yield t
    a.grad = a.grad + g * (1 - t**2)


def total(a):
    g = yield a.value.sum()
    a.grad = a.grad + g * np.ones_like(a.value)


def trim(g, var):
    """Sum over the axes along which a variable was repeated."""
    shape = var.value.shape
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    return g.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)
