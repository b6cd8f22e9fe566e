"""Ops that reduce an array over one axis, several, or (`axis=None`) all of them.

Backwards, the cotangent gets the reduced axes back with length 1 and is spread over the operand.
"""
# ruff: noqa: A001 - an op has its field's name, and no builtin of that name is used here

from __future__ import annotations

import math

import numpy as np

from minigrad.types import Array, Axis, Cotangents, Recorded


def sum(a: Array, axis: Axis = None, keepdims: bool = False) -> Recorded:
    """Sum; over no elements 0."""
    axes = _axes(a, axis)

    def vjp(g: Array) -> Cotangents:
        kept = g if keepdims else np.expand_dims(g, axes)
        return (np.broadcast_to(kept, a.shape),)

    return a.sum(axes, keepdims=keepdims), vjp


def mean(a: Array, axis: Axis = None, keepdims: bool = False) -> Recorded:
    """Arithmetic mean; integers give floats, no elements give NaN."""
    axes = _axes(a, axis)
    count = math.prod(a.shape[i] for i in axes)

    def vjp(g: Array) -> Cotangents:
        kept = g if keepdims else np.expand_dims(g, axes)
        return (np.broadcast_to(kept / count, a.shape),)

    return a.sum(axes, keepdims=keepdims) / count, vjp


def max(a: Array, axis: Axis = None, keepdims: bool = False) -> Recorded:
    """Largest value; NaN wins. Raises ValueError over no elements.

    Elements that tie for the maximum share its cotangent equally, as in `torch.amax`.
    """
    axes = _axes(a, axis)
    value = a.max(axes, keepdims=True)

    def vjp(g: Array) -> Cotangents:
        kept = g if keepdims else np.expand_dims(g, axes)
        tied = a == value
        return (kept * tied / tied.sum(axes, keepdims=True),)

    return value if keepdims else value.squeeze(axes), vjp


def _axes(a: Array, axis: Axis) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(a.ndim))
    return axis if isinstance(axis, tuple) else (axis,)
