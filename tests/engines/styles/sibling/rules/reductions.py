"""Rules of the reductions."""

import numpy as np


class Mean:
    def __init__(self, inputs):
        self.inputs = inputs

    def forward(self, a):
        return a.mean()

    def backward(self, g):
        (a,) = (x.data for x in self.inputs)
        return (np.full(a.shape, g / a.size),)
