"""Rules of the binary ops."""

from rules.shapes import sum_to_shape


class Add:
    def __init__(self, inputs):
        self.inputs = inputs

    def forward(self, a, b):
        return a + b

    def backward(self, g):
        a, b = (x.data for x in self.inputs)
        return sum_to_shape(g, a.shape), sum_to_shape(g, b.shape)


class Sub(Add):
    def forward(self, a, b):
        return a - b

    def backward(self, g):
        a, b = (x.data for x in self.inputs)
        return sum_to_shape(g, a.shape), sum_to_shape(-g, b.shape)


class Mul(Add):
    def forward(self, a, b):
        return a * b

    def backward(self, g):
        a, b = (x.data for x in self.inputs)
        return sum_to_shape(g * b, a.shape), sum_to_shape(g * a, b.shape)
