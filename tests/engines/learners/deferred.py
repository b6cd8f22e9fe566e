"""Labelled numbers: an expression is evaluated first, and differentiated afterwards."""

import math


class Expression:
    def __init__(self):
        self.amount, self.adjoint = math.nan, None

    def __add__(self, other):
        return Sum(self, as_expression(other))

    def __sub__(self, other):
        return Difference(self, as_expression(other))

    def __mul__(self, other):
        return Product(self, as_expression(other))

    def exp(self):
        return Exponential(self)

    def backward(self, adjoint: float = 1.0):
        self.adjoint = adjoint if self.adjoint is None else self.adjoint + adjoint


class Quantity(Expression):
    def __init__(self, label: str, amount: float = math.nan):
        super().__init__()
        self.label, self.amount = label, amount

    def evaluate(self):
        return self.amount


class Operation(Expression):
    def __init__(self, *parts):
        super().__init__()
        self.parts = parts

    def evaluate(self):
        self.amount = self.compute(*(part.evaluate() for part in self.parts))
        return self.amount

    def backward(self, adjoint: float = 1.0):
        super().backward(adjoint)
        for part, slope in zip(self.parts, self.slopes(*self.parts), strict=True):
            part.backward(slope * adjoint)


class Sum(Operation):
    def compute(self, a, b):
        return a + b

    def slopes(self, a, b):
        return 1.0, 1.0


class Difference(Operation):
    def compute(self, a, b):
        return a - b

    def slopes(self, a, b):
        return 1.0, -1.0


class Product(Operation):
    def compute(self, a, b):
        return a * b

    def slopes(self, a, b):
        return b.amount, a.amount


class Exponential(Operation):
    def compute(self, a):
        return math.exp(a)

    def slopes(self, a):
        return (self.amount,)


def as_expression(x):
    return x if isinstance(x, Expression) else Quantity("", float(x))
