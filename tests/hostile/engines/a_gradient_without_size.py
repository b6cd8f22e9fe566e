"""Gradients of a trillion numbers that take no memory: one number, broadcast."""

ENDS = ["MemoryError", "ValueError"]


def attack(tensor):
    import numpy as np

    one = np.broadcast_to(np.float64(1), (10**6, 10**6))
    tensor.parent.__class__.grad = property(lambda _: one, lambda *_: None)
