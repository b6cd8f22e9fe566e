"""What the contestants compute: the same arrays for all of them, drawn from fixed seeds."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Training:
    """Inputs, targets, and the parameters to start from: weight (out, in), bias (out,), ..."""

    x: Array
    targets: Array
    parameters: tuple[Array, ...]
    learning_rate: float


@dataclass(frozen=True)
class Layer:
    """An input, the cotangent of the output, and the layer's parameters."""

    x: Array
    cotangent: Array
    parameters: tuple[Array, ...]


def large(dtype: DTypeLike) -> Training:
    """A batch of 64 for 784-128-10, the size of MNIST."""
    return _classification(64, (784, 128, 10), dtype)


def small(dtype: DTypeLike) -> Training:
    """A batch of 32 for 16-32-10, where the arrays cost little and the engine much."""
    return _classification(32, (16, 32, 10), dtype)


def moons(dtype: DTypeLike) -> Training:
    """100 points on two interleaved half circles, labelled -1 and 1 (100, 1), for 2-16-16-1."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, np.pi, 100)
    label = np.repeat([-1.0, 1.0], 50)
    x = np.stack([np.cos(angle) + (label < 0), label * (np.sin(angle) - 0.25)], axis=1)
    x += rng.normal(0, 0.1, x.shape)
    parameters = _parameters((2, 16, 16, 1), rng, dtype)
    return Training(x.astype(dtype), label[:, None].astype(dtype), parameters, 0.1)


def convolution(dtype: DTypeLike) -> Layer:
    """Eight images, 3 to 16 channels, 32 by 32, padded by 1; weight (16, 3, 3, 3), bias (16,)."""
    return _layer((8, 3, 32, 32), (8, 16, 32, 32), ((16, 3, 3, 3), (16,)), dtype)


def attention(dtype: DTypeLike) -> Layer:
    """Eight sequences of 64, 64 features; weight and bias for query, key, value and output."""
    return _layer((8, 64, 64), (8, 64, 64), ((64, 64), (64,)) * 4, dtype)


def _classification(batch: int, widths: tuple[int, ...], dtype: DTypeLike) -> Training:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, widths[0])).astype(dtype)
    labels = rng.integers(0, widths[-1], batch)
    return Training(x, labels, _parameters(widths, rng, dtype), 0.1)


def _parameters(
    widths: tuple[int, ...], rng: np.random.Generator, dtype: DTypeLike
) -> tuple[Array, ...]:
    shapes = [shape for fan_in, out in pairwise(widths) for shape in ((out, fan_in), (out,))]
    return tuple(rng.uniform(-1, 1, s).astype(dtype) * s[-1] ** -0.5 for s in shapes)


def _layer(
    taken: tuple[int, ...],
    given: tuple[int, ...],
    parameters: tuple[tuple[int, ...], ...],
    dtype: DTypeLike,
) -> Layer:
    rng = np.random.default_rng(0)
    x, cotangent = (rng.standard_normal(shape).astype(dtype) for shape in (taken, given))
    weights = tuple(rng.uniform(-0.2, 0.2, shape).astype(dtype) for shape in parameters)
    return Layer(x, cotangent, weights)
