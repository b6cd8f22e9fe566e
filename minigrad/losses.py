"""Loss functions: from predictions and targets to a scalar."""

from __future__ import annotations

from minigrad.tensor import Tensor
from minigrad.types import Array


def mse(prediction: Tensor, target: Tensor | Array) -> Tensor:
    """Mean squared error over all elements.

    Raises ValueError where the shapes differ: broadcasting (n, 1) against (n,) would compare every
    prediction with every target.
    """
    if prediction.shape != target.shape:
        raise ValueError(
            f"the prediction has shape {prediction.shape}, but the target has shape "
            f"{target.shape}: reshape one of them, mse does not broadcast"
        )
    return ((prediction - target) ** 2).mean()
