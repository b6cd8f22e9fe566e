"""Attention, and encodings of positions in a sequence."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import DTypeLike

from minigrad.functions import cat
from minigrad.nn.layers import Linear
from minigrad.nn.module import Module
from minigrad.tensor import Tensor
from minigrad.types import Array


class MultiHeadAttention(Module):
    """Each position of a sequence mixes the values of all positions, or (`causal`) of none later.

    (batch, length, features) -> the same shape; each of the `heads` works on its share of the
    features. Raises ValueError if they do not divide evenly. Source: Vaswani et al., Attention Is
    All You Need, 2017, section 3.2.
    """

    def __init__(
        self,
        features: int,
        heads: int,
        causal: bool = False,
        *,
        rng: np.random.Generator,
        dtype: DTypeLike = np.float64,
    ) -> None:
        """Draw the four projections from `rng`: query, key, value, output."""
        if features % heads:
            raise ValueError(f"{features} features do not divide evenly among {heads} heads")
        self.heads, self.causal = heads, causal
        self.query = Linear(features, features, rng=rng, dtype=dtype)
        self.key = Linear(features, features, rng=rng, dtype=dtype)
        self.value = Linear(features, features, rng=rng, dtype=dtype)
        self.output = Linear(features, features, rng=rng, dtype=dtype)

    def forward(self, x: Tensor, cache: dict[str, Tensor] | None = None) -> Tensor:
        """Attend within each sequence of the batch.

        A `cache`, empty before the first call, holds the keys and values of earlier calls: `x`
        continues the sequences, and attends to them too.
        """
        q, k, v = (self._split(project(x)) for project in (self.query, self.key, self.value))
        if cache is not None:
            if cache:
                k, v = cat([cache["k"], k], 2), cat([cache["v"], v], 2)
            cache.update(k=k, v=v)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if self.causal:
            scores = scores.masked_fill(causal_mask(k.shape[2])[-x.shape[1] :], -math.inf)
        mixed = scores.softmax(-1) @ v
        output: Tensor = self.output(mixed.transpose(1, 2).reshape(x.shape))
        return output

    def _split(self, x: Tensor) -> Tensor:
        """(batch, length, features) -> (batch, heads, length, features of a head)."""
        batch, length, features = x.shape
        return x.reshape(batch, length, self.heads, features // self.heads).transpose(1, 2)


def causal_mask(length: int) -> Array:
    """Return booleans (queries, keys): whether the key comes later than the query."""
    return np.triu(np.ones((length, length), bool), k=1)


def sinusoidal_positions(length: int, features: int, start: int = 0) -> Array:
    """Return a row for each position, to add to the input: (length, features), float64.

    The first row is that of position `start`. Even columns are sines, odd ones cosines, of
    wavelengths from 2 pi to 10000 * 2 pi. Source: Vaswani et al., Attention Is All You Need, 2017,
    section 3.5.
    """
    column = np.arange(features)
    angle = np.arange(start, start + length)[:, None] / 10_000 ** ((column - column % 2) / features)
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))
