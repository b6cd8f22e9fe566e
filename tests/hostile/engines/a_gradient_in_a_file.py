"""A gradient in a memory-mapped file that is truncated before it is read."""

ENDS = ["SIGBUS"]


def attack(tensor):
    import os

    import numpy as np

    array = np.memmap("gradient", "f8", "w+", shape=(3,))
    os.truncate("gradient", 0)
    tensor.parent.__class__.grad = property(lambda _: array, lambda *_: None)
