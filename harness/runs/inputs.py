"""The inputs of a probe: the values of its leaves, and the cotangent of its loss."""

from __future__ import annotations

import zlib
from functools import lru_cache

import numpy as np

from harness.core.run import NumericArray
from harness.core.vocabulary import Loss
from harness.pages.probe import Leaf, Probe
from harness.runs.protocol import SEED


def draw(probe: Probe) -> dict[str, NumericArray]:
    """Return the values of the leaves, which are the same on every engine and in every process.

    They are shared and read-only: an engine gets copies.
    """
    return {leaf.name: _values(probe.name, leaf) for leaf in probe.leaves}


def _values(probe: str, leaf: Leaf) -> NumericArray:
    if leaf.shape is None:
        return np.array(leaf.values, leaf.dtype)
    return _drawn(probe, leaf.name, leaf.shape, leaf.dtype)


@lru_cache(maxsize=4096)
def _drawn(probe: str, name: str, shape: tuple[int, ...], dtype: str) -> NumericArray:
    generator = _generator(f"{probe}/{name}")
    whole = np.dtype(dtype).kind == "i"
    drawn = generator.integers(-4, 5, shape) if whole else generator.standard_normal(shape)
    values = np.array(drawn, dtype)
    values.setflags(write=False)
    return values


@lru_cache(maxsize=4096)
def cotangent_for(probe: str, loss: Loss, shape: tuple[int, ...]) -> NumericArray:
    """Return the cotangent of an output of `shape` under a loss: ones, or fixed random numbers.

    It is shared and read-only, like the leaves.
    """
    if loss == "uniform":
        cotangent = np.ones(shape)
    else:
        cotangent = np.asarray(_generator(f"{probe}: cotangent").standard_normal(shape))
    cotangent.setflags(write=False)
    return cotangent


def _generator(label: str) -> np.random.Generator:
    return np.random.default_rng([SEED, zlib.crc32(label.encode())])
