"""A formula of named symbols, whose numbers are set later and computed in each pass."""

import math


class Formula:
    val = None
    der = 0.0

    def __add__(self, other):
        return Result(lambda a, b: a + b, lambda a, b: (1.0, 1.0), self, formula(other))

    def __sub__(self, other):
        return Result(lambda a, b: a - b, lambda a, b: (1.0, -1.0), self, formula(other))

    def __mul__(self, other):
        return Result(lambda a, b: a * b, lambda a, b: (b, a), self, formula(other))

    def tanh(self):
        return Result(math.tanh, lambda a: (1 - math.tanh(a) ** 2,), self)


class Symbol(Formula):
    def __init__(self, name=None):
        self.name = name

    def set_value(self, number):
        self.val = number

    def compute(self):
        self.der = 0.0
        return self.val

    def spread(self, part):
        if self.name is not None:
            self.der += part


class Result(Formula):
    def __init__(self, function, slopes, *inputs):
        self.function, self.slopes, self.inputs = function, slopes, inputs

    def compute(self):
        self.val = self.function(*(x.compute() for x in self.inputs))
        return self.val

    def spread(self, part):
        slopes = self.slopes(*(x.val for x in self.inputs))
        for x, slope in zip(self.inputs, slopes, strict=True):
            x.spread(part * slope)

    def reverse(self):
        self.compute()
        self.spread(1.0)


def formula(x):
    if isinstance(x, Formula):
        return x
    symbol = Symbol()
    symbol.set_value(float(x))
    return symbol
