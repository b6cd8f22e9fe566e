"""Gradients with negative strides, in another byte order, and read-only."""

ENDS = ["any"]


def attack(tensor):
    import numpy as np

    data = np.arange(6.0).astype(">f8")[::-2]
    data.setflags(write=False)
    tensor.parent.__class__.grad = property(lambda _: data, lambda *_: None)
