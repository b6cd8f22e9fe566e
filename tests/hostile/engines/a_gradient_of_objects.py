"""A gradient that holds Python objects."""

ENDS = ["TypeError"]


def attack(tensor):
    import numpy as np

    tensor.parent.__class__.grad = property(lambda _: np.array([{}, None]), lambda *_: None)
