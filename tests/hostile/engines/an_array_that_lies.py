"""A gradient of a subclass of NumPy's array that lies about itself."""

ENDS = ["any"]


import numpy as np


class Liar(np.ndarray):
    shape = property(lambda _: (-1, 10**9))
    dtype = property(lambda _: np.dtype("O"))
    tobytes = __array__ = __array_function__ = lambda *_, **__: b""


def attack(tensor):
    lie = np.zeros(3).view(Liar)
    tensor.parent.__class__.grad = property(lambda _: lie, lambda *_: None)
