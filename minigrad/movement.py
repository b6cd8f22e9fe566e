"""Ops that only move elements. Most values are views of the operand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minigrad.broadcasting import unbroadcast
from minigrad.types import Array, Cotangents, Recorded


def reshape(a: Array, shape: Sequence[int]) -> Recorded:
    """The same elements, in the same order, in another `shape`; one length may be -1."""

    def vjp(g: Array) -> Cotangents:
        return (g.reshape(a.shape),)

    return a.reshape(shape), vjp


def transpose(a: Array, axis0: int, axis1: int) -> Recorded:
    """Two axes swapped, which undoes itself."""

    def vjp(g: Array) -> Cotangents:
        return (g.swapaxes(axis0, axis1),)

    return a.swapaxes(axis0, axis1), vjp


def permute(a: Array, axes: Sequence[int]) -> Recorded:
    """The axes in another order: axis `i` of the value is axis `axes[i]` of `a`."""

    def vjp(g: Array) -> Cotangents:
        inverse = np.argsort([axis % a.ndim for axis in axes])
        return (g.transpose(inverse),)

    return a.transpose(axes), vjp


def expand(a: Array, shape: Sequence[int]) -> Recorded:
    """Axes of length 1 stretched, and axes created on the left, as broadcasting does.

    A length of -1 keeps the axis as it is. Raises ValueError for a `shape` that `a` does not
    broadcast to.
    """
    aligned = (1,) * (len(shape) - a.ndim) + a.shape
    lengths = [old if new == -1 else new for new, old in zip(shape, aligned, strict=False)]

    def vjp(g: Array) -> Cotangents:
        return (unbroadcast(g, a.shape),)

    return np.broadcast_to(a, lengths), vjp


def flip(a: Array, axes: tuple[int, ...]) -> Recorded:
    """The elements along each of the `axes` in reverse, which undoes itself."""

    def vjp(g: Array) -> Cotangents:
        return (np.flip(g, axes),)

    return np.flip(a, axes), vjp


def pad(a: Array, widths: Sequence[tuple[int, int]], value: float = 0.0) -> Recorded:
    """Padding with a constant `value`: the elements before and after, for each axis."""

    def vjp(g: Array) -> Cotangents:
        inside = zip(widths, a.shape, strict=True)
        return (g[tuple(slice(before, before + length) for (before, _), length in inside)],)

    return np.pad(a, widths, constant_values=value), vjp


# ----- Several operands -----


def concatenate(*arrays: Array, axis: int) -> Recorded:
    """The operands joined along an existing axis."""
    ends = np.cumsum([a.shape[axis] for a in arrays])

    def vjp(g: Array) -> Cotangents:
        return tuple(np.split(g, ends[:-1], axis))

    return np.concatenate(arrays, axis), vjp


def stack(*arrays: Array, axis: int) -> Recorded:
    """The operands, all of the same shape, joined along a new axis."""

    def vjp(g: Array) -> Cotangents:
        return tuple(np.moveaxis(g, axis, 0))

    return np.stack(arrays, axis), vjp
