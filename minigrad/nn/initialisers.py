"""Initial values of parameters: arrays to create a tensor from.

`shape` is (out, in, *kernel), as for the weights in `layers`. An output sums `fan_in` products, and
an input is used in `fan_out` of them; both count the elements of the kernel.
"""

from __future__ import annotations

import math

import numpy as np

from minigrad.types import Array

Shape = tuple[int, ...]


def fans(shape: Shape) -> tuple[int, int]:
    """`fan_in` and `fan_out` of a weight. Raises ValueError for fewer than two axes."""
    if len(shape) < 2:
        raise ValueError(f"a weight of shape {shape} has no fans: it needs (out, in, *kernel)")
    kernel = math.prod(shape[2:])
    return shape[1] * kernel, shape[0] * kernel


def zeros(shape: Shape) -> Array:
    """All zeros, for biases. Weights that are all equal would stay equal."""
    return np.zeros(shape)


def uniform_fan_in(shape: Shape, fan_in: int, *, rng: np.random.Generator) -> Array:
    """Uniform in ±1/sqrt(fan_in).

    Source: LeCun et al., Efficient BackProp, 1998, section 4.6, which recommends a deviation of
    1/sqrt(fan_in); this bound makes it smaller by sqrt(3), as in PyTorch's layers.
    """
    bound = 1 / math.sqrt(fan_in)
    return rng.uniform(-bound, bound, shape)


def xavier_uniform(shape: Shape, *, rng: np.random.Generator) -> Array:
    """Uniform, of variance 2 / (fan_in + fan_out): for tanh.

    Source: Glorot and Bengio, Understanding the Difficulty of Training Deep Feedforward Neural
    Networks, 2010, equation 16.
    """
    fan_in, fan_out = fans(shape)
    bound = math.sqrt(6 / (fan_in + fan_out))
    return rng.uniform(-bound, bound, shape)


def xavier_normal(shape: Shape, *, rng: np.random.Generator) -> Array:
    """Normal, of variance 2 / (fan_in + fan_out): for tanh. Source: as `xavier_uniform`, eq. 12."""
    fan_in, fan_out = fans(shape)
    return rng.normal(0.0, math.sqrt(2 / (fan_in + fan_out)), shape)


def he_uniform(shape: Shape, *, rng: np.random.Generator) -> Array:
    """Uniform, of variance 2 / fan_in: for relu. Source: as `he_normal`."""
    fan_in, _ = fans(shape)
    bound = math.sqrt(6 / fan_in)
    return rng.uniform(-bound, bound, shape)


def he_normal(shape: Shape, *, rng: np.random.Generator) -> Array:
    """Normal, of variance 2 / fan_in: for relu, which halves the second moment.

    Source: He et al., Delving Deep into Rectifiers, 2015, equation 10.
    """
    fan_in, _ = fans(shape)
    return rng.normal(0.0, math.sqrt(2 / fan_in), shape)
