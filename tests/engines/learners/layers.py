"""Each op is a layer object with `forward`, a cache, and `backward`; tensors chain the layers."""

import numpy as np


class AddLayer:
    def forward(self, x, y):
        self.cache = (x.shape, y.shape)
        return x + y

    def backward(self, dout):
        x_shape, y_shape = self.cache
        return reduce_to(dout, x_shape), reduce_to(dout, y_shape)


class MulLayer:
    def forward(self, x, y):
        self.cache = (x, y)
        return x * y

    def backward(self, dout):
        x, y = self.cache
        dx = dout * y
        dy = dout * x
        return reduce_to(dx, x.shape), reduce_to(dy, y.shape)


class DotLayer:
    def forward(self, x, w):
        self.cache = (x, w)
        return x.dot(w)

    def backward(self, dout):
        x, w = self.cache
        return dout.dot(w.T), x.T.dot(dout)


class ReluLayer:
    def forward(self, x):
        self.cache = x <= 0
        out = x.copy()
        out[self.cache] = 0
        return out

    def backward(self, dout):
        dx = dout.copy()
        dx[self.cache] = 0
        return (dx,)


class SumLayer:
    def forward(self, x):
        self.cache = x.shape
        return x.sum()

    def backward(self, dout):
        return (dout * np.ones(self.cache),)


class Tensor:
    def __init__(self, data, layer=None, inputs=()):
        self.data = np.asarray(data, dtype=float)
        self.layer, self.inputs, self.grad = layer, inputs, None

    def _through(self, layer, *others):
        inputs = (self, *(x if isinstance(x, Tensor) else Tensor(x) for x in others))
        return Tensor(layer.forward(*(x.data for x in inputs)), layer, inputs)

    def __add__(self, other):
        return self._through(AddLayer(), other)

    def __mul__(self, other):
        return self._through(MulLayer(), other)

    def __matmul__(self, other):
        return self._through(DotLayer(), other)

    def relu(self):
        return self._through(ReluLayer())

    def sum(self):
        return self._through(SumLayer())

    def backward(self, dout=None):
        chain = []
        self._collect(chain)
        self._receive(np.ones_like(self.data) if dout is None else np.asarray(dout))
        for tensor in reversed(chain):
            if tensor.layer is not None:
                for source, dx in zip(
                    tensor.inputs, tensor.layer.backward(tensor.grad), strict=True
                ):
                    source._receive(dx)

    def _receive(self, dout):
        self.grad = dout if self.grad is None else self.grad + dout

    def _collect(self, chain):
        if any(self is tensor for tensor in chain):
            return
        for source in self.inputs:
            source._collect(chain)
        chain.append(self)


def reduce_to(g, shape):
    while g.ndim > len(shape):
        g = g.sum(axis=0)
    for axis, n in enumerate(shape):
        if n == 1 and g.shape[axis] > 1:
            g = g.sum(axis=axis, keepdims=True)
    return g
