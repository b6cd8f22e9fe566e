"""Gradients of a gigabyte, from shapes that grew by mistake."""

ENDS = ["ResultTooLarge"]


def attack(tensor):
    import numpy as np

    tensor.parent.__class__.grad = property(lambda _: np.zeros(16_000_000), lambda *_: None)
