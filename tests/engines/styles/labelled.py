"""Every variable has a label and a role, and only parameters get a gradient."""

from __future__ import annotations

from enum import Enum

import numpy as np


class Role(Enum):
    CONSTANT = "constant"
    PARAMETER = "parameter"
    RESULT = "result"


class Var:
    def __init__(self, label: str, value, role: Role):
        if not isinstance(label, str) or not label:
            raise ValueError("a variable needs a label")
        if not isinstance(role, Role):
            raise TypeError("role must be a Role")
        self.label, self.value, self.role = label, np.array(value, dtype=float), role
        self.gradient, self.inputs, self.push = None, (), None

    def receive(self, g):
        if self.role is Role.CONSTANT:
            return
        while g.ndim > self.value.ndim:
            g = g.sum(0)
        for axis in range(g.ndim):
            if self.value.shape[axis] == 1:
                g = g.sum(axis, keepdims=True)
        self.gradient = g if self.gradient is None else self.gradient + g

    def _result(self, symbol, value, others, push):
        names = " ".join([self.label, *(other.label for other in others)])
        out = Var(f"({symbol} {names})", value, Role.RESULT)
        out.inputs, out.push = (self, *others), push
        return out

    def __add__(self, other):
        def push(g):
            self.receive(g)
            other.receive(g)

        return self._result("+", self.value + other.value, (other,), push)

    def __mul__(self, other):
        def push(g):
            self.receive(g * other.value)
            other.receive(g * self.value)

        return self._result("*", self.value * other.value, (other,), push)

    def tanh(self):
        out = np.tanh(self.value)
        return self._result("tanh", out, (), lambda g: self.receive(g * (1 - out**2)))

    def sum(self):
        return self._result(
            "sum", self.value.sum(), (), lambda g: self.receive(np.full(self.value.shape, g))
        )

    def backpropagate(self):
        order = []

        def visit(var):
            if var not in order:
                for source in var.inputs:
                    visit(source)
                order.append(var)

        visit(self)
        for var in order:
            if var.role is Role.RESULT:
                var.gradient = None
        self.gradient = np.ones_like(self.value)
        for var in reversed(order):
            if var.push is not None and var.gradient is not None:
                var.push(var.gradient)
