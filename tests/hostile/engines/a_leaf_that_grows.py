"""Changes the shape and the dtype of the data that it receives."""

ENDS = ["any"]


def attack(tensor):
    import numpy as np

    tensor.parent.data = np.zeros((0, 10**9), "c16")
    tensor.data = None
