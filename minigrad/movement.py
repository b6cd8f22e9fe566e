"""Ops that move elements and compute nothing. Most values are views of the operand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

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


def getitem(a: Array, index: Any) -> Recorded:
    """`a[index]`, for whatever NumPy takes as an index.

    An element that is picked several times gets the sum of its cotangents.
    """

    def vjp(g: Array) -> Cotangents:
        whole = np.zeros(a.shape, g.dtype)
        np.add.at(whole, index, g)
        return (whole,)

    return a[index], vjp
