"""A tape that records the program, is read backwards, and holds the gradients."""

import numpy as np

TAPE = []


def sum_grad_to_shape(grad, shape):
    while grad.ndim > len(shape):
        grad = np.sum(grad, axis=0)
    for axis, size in enumerate(shape):
        if size == 1:
            grad = np.sum(grad, axis=axis, keepdims=True)
    return grad


def _add_backward(grad, a, b):
    return sum_grad_to_shape(grad, a.shape), sum_grad_to_shape(grad, b.shape)


def _mul_backward(grad, a, b):
    return sum_grad_to_shape(grad * b, a.shape), sum_grad_to_shape(grad * a, b.shape)


def _exp_backward(grad, a):
    return (grad * np.exp(a),)


def _sum_backward(grad, a):
    return (np.broadcast_to(grad, a.shape),)


def _record(forward, backward, *inputs):
    inputs = [x if isinstance(x, Tensor) else Tensor(x) for x in inputs]
    out = Tensor(forward(*(x.data for x in inputs)))
    TAPE.append((out, inputs, backward))
    return out


class Tensor:
    def __init__(self, data):
        self.data, self.grad = np.asarray(data, dtype=np.float64), None

    def __add__(self, other):
        return _record(np.add, _add_backward, self, other)

    def __mul__(self, other):
        return _record(np.multiply, _mul_backward, self, other)

    def exp(self):
        return _record(np.exp, _exp_backward, self)

    def sum(self):
        return _record(np.sum, _sum_backward, self)

    def backward(self, grad=None):
        grads = {id(self): np.ones_like(self.data) if grad is None else np.asarray(grad)}
        leaves = {id(self): self}
        for out, inputs, rule in reversed(TAPE):
            if id(out) not in grads:
                continue
            leaves.pop(id(out))
            for x, g in zip(
                inputs, rule(grads.pop(id(out)), *(x.data for x in inputs)), strict=True
            ):
                grads[id(x)] = grads[id(x)] + g if id(x) in grads else g
                leaves[id(x)] = x
        for key, leaf in leaves.items():
            leaf.grad = grads[key] if leaf.grad is None else leaf.grad + grads[key]
        TAPE.clear()
