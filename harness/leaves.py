"""The numbers that go into a probe: its leaves, and the cotangent that its loss hands back."""

from __future__ import annotations

import zlib

import numpy as np

from harness.probe import Leaf, Probe
from harness.run import NumericArray
from harness.words import Loss

SEED = 20260
"""Everything random in a probe comes from this seed, the probe's name and the leaf's name."""


def draw(probe: Probe) -> dict[str, NumericArray]:
    """The leaves' values in their dtypes, the same on every engine and in every process."""
    return {leaf.name: _values(probe.name, leaf) for leaf in probe.leaves}


def _values(probe: str, leaf: Leaf) -> NumericArray:
    if leaf.shape is None:
        return np.array(leaf.values, leaf.dtype)
    generator = _generator(f"{probe}/{leaf.name}")
    if np.dtype(leaf.dtype).kind == "i":
        return generator.integers(-4, 5, leaf.shape, leaf.dtype)
    return np.asarray(generator.standard_normal(leaf.shape), leaf.dtype)


def cotangent_for(probe: str, loss: Loss, shape: tuple[int, ...]) -> NumericArray:
    """The cotangent that a loss hands to an output of `shape`: ones, or fixed random numbers."""
    if loss == "uniform":
        return np.ones(shape)
    return np.asarray(_generator(f"{probe}: cotangent").standard_normal(shape))


def _generator(label: str) -> np.random.Generator:
    return np.random.default_rng([SEED, zlib.crc32(label.encode())])
