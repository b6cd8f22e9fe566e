"""A foreign engine as text, and functions that derive variants of it."""

from pathlib import Path

SOUND = """\
import numpy as np


def fold(g, shape):
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    ones = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return g.sum(axis=ones, keepdims=True)


def lift(x):
    return x if isinstance(x, Tensor) else Tensor(x)


class Tensor:
    def __init__(self, data, parents=(), rules=()):
        self.data = np.array(data, dtype=float)
        self.grad = None
        self.parents, self.rules = parents, rules

    def __add__(self, other):
        a, b = self, lift(other)
        rules = (lambda g: fold(g, a.data.shape), lambda g: fold(g, b.data.shape))
        return Tensor(a.data + b.data, (a, b), rules)

    def __mul__(self, other):
        a, b = self, lift(other)
        rules = (
            lambda g: fold(g * b.data, a.data.shape),
            lambda g: fold(g * a.data, b.data.shape),
        )
        return Tensor(a.data * b.data, (a, b), rules)

    def sum(self, axis=None, keepdims=False):
        def rule(g):
            kept = g if keepdims or axis is None else np.expand_dims(g, axis)
            return np.ones_like(self.data) * kept

        return Tensor(self.data.sum(axis=axis, keepdims=keepdims), (self,), (rule,))

    def relu(self):
        return Tensor(np.maximum(self.data, 0), (self,), (lambda g: g * (self.data > 0),))

    def backward(self, g):
        self.receive(np.array(g, dtype=float))
        order = []

        def visit(t):
            if t not in order:
                for parent in t.parents:
                    visit(parent)
                order.append(t)

        visit(self)
        pending = {self: np.array(g, dtype=float)}
        for t in reversed(order):
            for parent, rule in zip(t.parents, t.rules):
                part = rule(pending[t])
                parent.receive(part)
                pending[parent] = pending[parent] + part if parent in pending else part

    def receive(self, part):
        self.grad = part if self.grad is None else self.grad + part
"""
"""A small correct engine: sums, products, a sum over an axis, a kink, rebound gradients."""


def changed(*pairs: tuple[str, str], text: str = SOUND) -> str:
    """The text with every `old`, which must occur, replaced by its `new`."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def written(folder: Path, text: str, file: str = "engine.py") -> str:
    """Write the text to a file, and return the file's name."""
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


SCALAR = """\
class Value:
    def __init__(self, data, parents=()):
        self.data, self.grad, self.parents, self.back = data, 0.0, parents, lambda: None

    def __add__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        out = Value(self.data + other.data, (self, other))

        def back():
            self.grad += out.grad
            other.grad += out.grad

        out.back = back
        return out

    def __mul__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        out = Value(self.data * other.data, (self, other))

        def back():
            self.grad += other.data * out.grad
            other.grad += self.data * out.grad

        out.back = back
        return out

    __radd__, __rmul__ = __add__, __mul__

    def relu(self):
        out = Value(max(self.data, 0.0), (self,))

        def back():
            self.grad += (out.data > 0) * out.grad

        out.back = back
        return out

    def backward(self):
        order = []

        def visit(v):
            if v not in order:
                for parent in v.parents:
                    visit(parent)
                order.append(v)

        visit(self)
        self.grad = 1.0
        for v in reversed(order):
            v.back()
"""
"""An engine whose values are single Python numbers."""
