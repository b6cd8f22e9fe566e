"""Monitoring a training: accuracy, means over an epoch, and the best weights so far."""

from __future__ import annotations

import math

import numpy as np

from minigrad.nn import Module
from minigrad.tensor import Tensor
from minigrad.types import Array


def accuracy(predicted: Tensor | Array, target: Tensor | Array) -> float:
    """Return the share of predicted classes, such as `scores.argmax(1)`, that equal the target's.

    Raises ValueError where the shapes differ: broadcasting (n, 1) against (n,) would compare every
    prediction with every target.
    """
    predicted, target = np.asarray(predicted), np.asarray(target)
    if predicted.shape != target.shape:
        raise ValueError(f"predictions of shape {predicted.shape}, targets of {target.shape}")
    return float((predicted == target).mean())


class RunningMean:
    """The mean over all samples so far, from means over batches of any sizes."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, mean: Tensor | float, count: int) -> None:
        """Add the mean over a batch of `count` samples: a number, or a tensor of one element."""
        mean = float(np.asarray(mean))
        self.total += mean * count
        self.count += count

    def value(self) -> float:
        """The mean. Raises ValueError before any sample."""
        if not self.count:
            raise ValueError("no sample so far, so there is no mean")
        return self.total / self.count


class EarlyStopping:
    """Keeps the state of a model at its lowest validation loss, and determines when to stop.

    Source: Goodfellow, Bengio and Courville, Deep Learning, 2016, algorithm 7.1.
    """

    def __init__(self, model: Module, patience: int) -> None:
        """`patience` is the number of epochs in a row without a new lowest loss to stop after."""
        if patience < 1:
            raise ValueError(f"a patience of {patience}: at least 1")
        self.model, self.patience = model, patience
        self.best, self.best_state = math.inf, model.state_dict()
        self.waited = 0

    def update(self, loss: float) -> bool:
        """Add an epoch's loss, and return whether to stop. NaN is never the lowest."""
        self.waited += 1
        if loss < self.best:
            self.best, self.best_state = loss, self.model.state_dict()
            self.waited = 0
        return self.waited >= self.patience

    def restore(self) -> None:
        """Restore the model's best state."""
        self.model.load_state_dict(self.best_state)
