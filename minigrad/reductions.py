"""Ops that reduce an array over one axis, several, or (`axis=None`) all of them.

In the backward pass, the cotangent regains the reduced axes and is broadcast to the operand. Ops
that accumulate along an axis keep it.
"""
# ruff: noqa: A001 - an op has its field's name, and no builtin of that name is used here

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from minigrad.types import Array, Axis, Cotangents, Recorded


def sum(a: Array, axis: Axis = None, keepdims: bool = False) -> Recorded:
    """Sum; 0 for no elements."""
    axes = reduced_axes(a, axis)

    def vjp(g: Array) -> Cotangents:
        kept = g if keepdims else np.expand_dims(g, axes)
        return (np.broadcast_to(kept, a.shape),)

    return a.sum(axes, keepdims=keepdims), vjp


def mean(a: Array, axis: Axis = None, keepdims: bool = False) -> Recorded:
    """Arithmetic mean; integers give floats, no elements give NaN."""
    axes = reduced_axes(a, axis)
    count = math.prod(a.shape[i] for i in axes)

    def vjp(g: Array) -> Cotangents:
        kept = g if keepdims else np.expand_dims(g, axes)
        return (np.broadcast_to(kept / count, a.shape),)

    return a.sum(axes, keepdims=keepdims) / count, vjp


def var(a: Array, axis: Axis = None, keepdims: bool = False, correction: float = 1) -> Recorded:
    """Squared deviations from the mean, summed and divided by their number less `correction`.

    NaN if no element deviates and the divisor is 0. Each element also moves the mean, but that has
    no effect to first order, as the deviations from the mean sum to 0.
    """
    axes = reduced_axes(a, axis)
    count = math.prod(a.shape[i] for i in axes)
    freedom = count - correction if count > correction else 0
    deviation = a - a.sum(axes, keepdims=True) / count

    def vjp(g: Array) -> Cotangents:
        kept = g if keepdims else np.expand_dims(g, axes)
        return (kept * 2 * deviation / freedom,)

    return (deviation**2).sum(axes, keepdims=keepdims) / freedom, vjp


def norm(a: Array, axis: Axis = None, keepdims: bool = False) -> Recorded:
    """Euclidean length: the root of the sum of squares.

    At 0 every vector of length up to 1 is a subgradient; we take 0, as PyTorch does (JAX: NaN).
    """
    axes = reduced_axes(a, axis)
    value = np.sqrt((a * a).sum(axes, keepdims=True))

    def vjp(g: Array) -> Cotangents:
        kept = g if keepdims else np.expand_dims(g, axes)
        # Where the length is 0, so is `a`: it is divided by 1, as 0/0 would be NaN.
        return (kept * (a / np.where(value == 0, 1, value)),)

    return value if keepdims else value.squeeze(axes), vjp


def prod(a: Array, axis: int | None = None, keepdims: bool = False) -> Recorded:
    """Product over one axis or all; 1 for no elements.

    The derivative for an element is the product of the elements before it and those after it.
    Nothing is divided by `a`, which may be 0.
    """

    def vjp(g: Array) -> Cotangents:
        kept = g if keepdims else np.expand_dims(g, reduced_axes(a, axis))
        factors = a.reshape(-1) if axis is None else np.moveaxis(a, axis, 0)
        before, after = np.ones_like(factors), np.ones_like(factors)
        before[1:] = factors[:-1].cumprod(0)
        after[:-1] = factors[:0:-1].cumprod(0)[::-1]
        others = before * after
        return (kept * (others.reshape(a.shape) if axis is None else np.moveaxis(others, 0, axis)),)

    return a.prod(axis, keepdims=keepdims), vjp


def max(a: Array, axis: Axis = None, keepdims: bool = False) -> Recorded:
    """Largest value; NaN wins. Raises ValueError over no elements.

    Elements that tie for the maximum share its cotangent equally, as in `torch.amax`, TensorFlow
    and JAX (`torch.max` with a `dim`: one of them gets all of it).
    """
    axes = reduced_axes(a, axis)
    value = a.max(axes, keepdims=True)

    def vjp(g: Array) -> Cotangents:
        kept = g if keepdims else np.expand_dims(g, axes)
        tied = a == value
        return (kept * tied / tied.sum(axes, keepdims=True),)

    return value if keepdims else value.squeeze(axes), vjp


def min(a: Array, axis: Axis = None, keepdims: bool = False) -> Recorded:
    """Smallest value; NaN wins. Raises ValueError over no elements.

    Elements that tie for the minimum share its cotangent equally, as in `torch.amin`, TensorFlow
    and JAX (`torch.min` with a `dim`: one of them gets all of it).
    """
    axes = reduced_axes(a, axis)
    value = a.min(axes, keepdims=True)

    def vjp(g: Array) -> Cotangents:
        kept = g if keepdims else np.expand_dims(g, axes)
        tied = a == value
        return (kept * tied / tied.sum(axes, keepdims=True),)

    return value if keepdims else value.squeeze(axes), vjp


# ----- Cumulative along one axis -----


def cumsum(a: Array, axis: int) -> Recorded:
    """Sum of each element and those before it.

    An element is part of every sum from its place on, so the cotangents are summed from the end.
    """

    def vjp(g: Array) -> Cotangents:
        return (np.flip(np.flip(g, axis).cumsum(axis), axis),)

    return a.cumsum(axis), vjp


def cumprod(a: Array, axis: int) -> Recorded:
    """Product of each element and those before it.

    Nothing is divided by `a`, which may be 0: the slope is the product before an element times a
    sum over the products after it, built from the end as in Horner's scheme.
    """

    def vjp(g: Array) -> Cotangents:
        elements, upstream = np.moveaxis(a, axis, 0), np.moveaxis(g, axis, 0)
        before = np.ones_like(elements)
        before[1:] = elements[:-1].cumprod(0)
        after = upstream.copy()
        for i in range(len(elements) - 1, 0, -1):
            after[i - 1] += elements[i] * after[i]
        return (np.moveaxis(before * after, 0, axis),)

    return a.cumprod(axis), vjp


def reduced_axes(a: Array, axis: Axis) -> tuple[int, ...]:
    """Return the axes that are reduced, as a tuple."""
    if axis is None:
        return tuple(range(a.ndim))
    return tuple(axis) if isinstance(axis, Sequence) else (axis,)
