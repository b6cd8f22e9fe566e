"""Layers that give their input a fixed scale, along the features or along the batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from minigrad.nn.module import Module
from minigrad.precision import HALF, widened
from minigrad.tensor import Tensor
from minigrad.types import Array


class _Normalisation(Module):
    """A layer whose intermediate results would overflow in float16: 256 squared is too large."""

    weight: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Compute in float32 if the input is float16, and round the output."""
        half = x.dtype == HALF
        output: Tensor = self.forward(x.to(np.float32) if half else x)
        return output.to(np.result_type(HALF, self.weight.dtype)) if half else output


class LayerNorm(_Normalisation):
    """Mean 0 and variance 1 along the last axis, then a learned scale and shift: (..., features).

    Source: Ba et al., Layer Normalization, 2016; `eps` inside the root, as in PyTorch.
    """

    def __init__(self, features: int, eps: float = 1e-5, *, dtype: DTypeLike = np.float64) -> None:
        self.weight = Tensor(np.ones(features), requires_grad=True, dtype=dtype)
        self.bias = Tensor(np.zeros(features), requires_grad=True, dtype=dtype)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each vector. Raises ValueError for another number of features."""
        _check_features(x, self.weight)
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred**2).mean(-1, keepdim=True)
        return centred / (variance + self.eps).sqrt() * self.weight + self.bias


class RMSNorm(_Normalisation):
    """Root mean square 1 along the last axis, then a learned scale: (..., features).

    Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.
    """

    def __init__(self, features: int, eps: float = 1e-6, *, dtype: DTypeLike = np.float64) -> None:
        self.weight = Tensor(np.ones(features), requires_grad=True, dtype=dtype)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each vector. Raises ValueError for another number of features."""
        _check_features(x, self.weight)
        mean_square = (x**2).mean(-1, keepdim=True)
        return x / (mean_square + self.eps).sqrt() * self.weight


class BatchNorm1d(_Normalisation):
    """Mean 0 and variance 1 of each feature over the batch, then a learned scale and shift.

    (batch, features), at least two rows in training. There, the running statistics move by
    `momentum` towards those of the batch; in evaluation they replace them. The batch is normalised
    with its biased variance, and the running variance uses the unbiased one, as in PyTorch. Source:
    Ioffe and Szegedy, Batch Normalization, 2015, algorithms 1 and 2.
    """

    def __init__(
        self,
        features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        *,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.weight = Tensor(np.ones(features), requires_grad=True, dtype=dtype)
        self.bias = Tensor(np.zeros(features), requires_grad=True, dtype=dtype)
        self.running_mean: Array = np.zeros(features, dtype)
        self.running_var: Array = np.ones(features, dtype)
        self.eps, self.momentum = eps, float(momentum)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each feature. Raises ValueError for another shape, or one row in training."""
        _check_features(x, self.weight)
        if x.ndim != 2:
            raise ValueError(f"an input of shape {x.shape}: reshape it to (batch, features)")
        if self.training:
            mean, variance = self._batch_statistics(x)
        else:
            mean, variance = Tensor(widened(self.running_mean)), Tensor(widened(self.running_var))
        return (x - mean) / (variance + self.eps).sqrt() * self.weight + self.bias

    def _batch_statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and biased variance of each feature; update the running ones."""
        count = len(x)
        if count < 2:
            raise ValueError("a batch of one row has no variance: take more rows, or call eval()")
        mean = x.mean(0)
        variance = ((x - mean) ** 2).mean(0)
        unbiased = variance.data * (count / (count - 1))  # Bessel's correction
        moved_mean = (1 - self.momentum) * self.running_mean + self.momentum * mean.data
        moved_var = (1 - self.momentum) * self.running_var + self.momentum * unbiased
        self.running_mean = moved_mean.astype(self.running_mean.dtype, copy=False)
        self.running_var = moved_var.astype(self.running_var.dtype, copy=False)
        return mean, variance


def _check_features(x: Tensor, weight: Tensor) -> None:
    """Raise ValueError where `weight` would broadcast against the last axis of `x`."""
    if x.shape[-1] != len(weight):
        raise ValueError(f"an input of shape {x.shape}, but the layer has {len(weight)} features")
