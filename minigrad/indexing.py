"""Ops that pick elements by position. In the backward pass, they are put back among zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.types import Array, Cotangents, Recorded


def getitem(a: Array, index: tuple[Any, ...]) -> Recorded:
    """`a[index]`, for any index that NumPy accepts.

    An element that is picked several times gets the sum of its cotangents.
    """

    def vjp(g: Array) -> Cotangents:
        whole = np.zeros(a.shape, g.dtype)
        if _may_repeat(index):
            np.add.at(whole, index, g)
        else:
            whole[index] = g
        return (whole,)

    return a[index], vjp


def gather(a: Array, axis: int, index: Array) -> Recorded:
    """One element along `axis` for each integer in `index`, which has as many axes as `a`.

    On the other axes, an element of the value has the position of its integer in `index`, which may
    be shorter there than `a`. Raises IndexError if it is longer or an integer is out of range.
    """
    places: list[Array] = list(np.indices(index.shape, sparse=True))
    places[axis] = index
    return getitem(a, tuple(places))


def index_add(a: Array, source: Array, axis: int, index: Array) -> Recorded:
    """`a` with the slices of `source` along `axis` added to those that `index` names, in order.

    A slice that is named several times gets the sum. Raises ValueError if the shapes do not fit.
    """
    places: tuple[Any, ...] = (*(slice(None),) * (axis % a.ndim), index)
    value = a.copy()
    np.add.at(value, places, source)

    def vjp(g: Array) -> Cotangents:
        return g, g[places]

    return value, vjp


def sort(a: Array, axis: int, order: Array) -> Recorded:
    """The elements along `axis` in the given `order`: element `i` of the value is `a[order[i]]`.

    `order` is a permutation along the axis, from `argsort`; the cotangents go back by its inverse.
    """

    def vjp(g: Array) -> Cotangents:
        inverse = order.argsort(axis)
        return (np.take_along_axis(g, inverse, axis),)

    return np.take_along_axis(a, order, axis), vjp


def _may_repeat(index: tuple[Any, ...]) -> bool:
    """Whether an element can be picked twice: by arrays of integers; not by slices and masks."""
    return any(np.ndim(part) > 0 and np.asarray(part).dtype != np.bool_ for part in index)
