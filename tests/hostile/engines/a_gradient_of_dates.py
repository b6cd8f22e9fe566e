"""A gradient that holds times and dates."""

ENDS = ["TypeError"]


def attack(tensor):
    import numpy as np

    dates = np.array(["2020-01-01", "NaT"], "M8[s]")
    tensor.parent.__class__.grad = property(lambda _: dates, lambda *_: None)
