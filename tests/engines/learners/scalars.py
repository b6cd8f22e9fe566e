"""Numbers, with a docstring for every method."""

import math


class Value:
    """A number, and the rate at which the result changes with it."""

    def __init__(self, data, inputs=(), slopes=()):
        """Wrap a number; `inputs` and `slopes` are for results of operations."""
        self.data = float(data)
        self.grad = 0.0
        self.inputs = inputs
        self.slopes = slopes

    def __add__(self, other):
        """Return the sum; both slopes are one."""
        other = as_value(other)
        return Value(self.data + other.data, (self, other), (1.0, 1.0))

    def __sub__(self, other):
        """Return the difference."""
        other = as_value(other)
        return Value(self.data - other.data, (self, other), (1.0, -1.0))

    def __mul__(self, other):
        """Return the product; each slope is the other factor."""
        other = as_value(other)
        return Value(self.data * other.data, (self, other), (other.data, self.data))

    def __truediv__(self, other):
        """Return the quotient."""
        other = as_value(other)
        slopes = (1 / other.data, -self.data / other.data**2)
        return Value(self.data / other.data, (self, other), slopes)

    def __pow__(self, k):
        """Return a power; the exponent is a plain number."""
        return Value(self.data**k, (self,), (k * self.data ** (k - 1),))

    def exp(self):
        """Return e to this number."""
        e = math.exp(self.data)
        return Value(e, (self,), (e,))

    def tanh(self):
        """Return the hyperbolic tangent."""
        t = math.tanh(self.data)
        return Value(t, (self,), (1 - t**2,))

    def backward(self):
        """Add the slope of this number with respect to each input to the input's `grad`."""
        self.grad = 1.0
        for value in reversed(sorted_inputs(self)):
            for operand, slope in zip(value.inputs, value.slopes, strict=True):
                operand.grad += slope * value.grad


def as_value(x):
    """Wrap a plain number."""
    return x if isinstance(x, Value) else Value(x)


def sorted_inputs(end):
    """Return all values that `end` was computed from, each after its own inputs."""
    order, visited = [], set()

    def visit(value):
        """Visit the inputs first."""
        if value not in visited:
            visited.add(value)
            for operand in value.inputs:
                visit(operand)
            order.append(value)

    visit(end)
    return order
