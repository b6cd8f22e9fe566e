"""A tensor, whose ops are classes of the package `rules`."""

import numpy as np
from rules.arithmetic import Add, Mul, Sub
from rules.reductions import Mean


class Tensor:
    def __init__(self, data, requires_grad=False, op=None):
        self.data = np.asarray(data, dtype=float)
        self.requires_grad, self.op, self.grad = requires_grad, op, None

    @classmethod
    def _apply(cls, kind, *inputs):
        inputs = [x if isinstance(x, cls) else cls(x) for x in inputs]
        op = kind(inputs)
        return cls(op.forward(*(x.data for x in inputs)), True, op)

    def __add__(self, other):
        return self._apply(Add, self, other)

    def __sub__(self, other):
        return self._apply(Sub, self, other)

    def __mul__(self, other):
        return self._apply(Mul, self, other)

    def mean(self):
        return self._apply(Mean, self)

    def backward(self, grad=None):
        order = []

        def visit(t):
            if t not in order:
                for x in t.op.inputs if t.op else ():
                    visit(x)
                order.append(t)

        visit(self)
        grads = {self: np.ones_like(self.data) if grad is None else np.asarray(grad)}
        for t in reversed(order):
            if t.op is None:
                if t.requires_grad:
                    t.grad = grads[t] if t.grad is None else t.grad + grads[t]
                continue
            for x, g in zip(t.op.inputs, t.op.backward(grads[t]), strict=True):
                grads[x] = grads[x] + g if x in grads else g
