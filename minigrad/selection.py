"""Ops that choose, element by element, which operand to take. Operands broadcast as in NumPy.

A cotangent goes to the operand that was taken. It is also selected, never multiplied by a mask: 0
times an infinite cotangent would be NaN.
"""

from __future__ import annotations

import numpy as np

from minigrad.broadcasting import unbroadcast
from minigrad.types import Array, Cotangents, Recorded


def where(a: Array, b: Array, condition: Array) -> Recorded:
    """`a` where the `condition` holds, else `b`.

    Both operands are computed before the choice. If one of them is not finite where it is not
    taken, its cotangent there is 0, but its own rule can still turn that into NaN. Raises TypeError
    for a condition that is not boolean.
    """
    if condition.dtype != np.bool_:
        raise TypeError(f"the condition is {condition.dtype}, not boolean: compare, as in x > 0")

    def vjp(g: Array) -> Cotangents:
        to_a, to_b = np.where(condition, g, 0), np.where(condition, 0, g)
        return unbroadcast(to_a, a.shape), unbroadcast(to_b, b.shape)

    return np.where(condition, a, b), vjp


def maximum(a: Array, b: Array) -> Recorded:
    """The larger of `a` and `b`; NaN wins.

    At a tie each gets half of the cotangent, as in PyTorch and JAX (TensorFlow: `a` all of it).
    """

    def vjp(g: Array) -> Cotangents:
        shared = np.where(a == b, g / 2, g)
        to_a, to_b = np.where(a < b, 0, shared), np.where(b < a, 0, shared)
        return unbroadcast(to_a, a.shape), unbroadcast(to_b, b.shape)

    return np.maximum(a, b), vjp


def minimum(a: Array, b: Array) -> Recorded:
    """The smaller of `a` and `b`; NaN wins.

    At a tie each gets half of the cotangent, as in PyTorch and JAX (TensorFlow: `a` all of it).
    """

    def vjp(g: Array) -> Cotangents:
        shared = np.where(a == b, g / 2, g)
        to_a, to_b = np.where(a > b, 0, shared), np.where(b > a, 0, shared)
        return unbroadcast(to_a, a.shape), unbroadcast(to_b, b.shape)

    return np.minimum(a, b), vjp


def clamp(a: Array, low: float | None, high: float | None) -> Recorded:
    """`a`, but `low` where it is less and `high` where it is more; NaN stays NaN. None: no bound.

    At a bound the slope is 1, as in PyTorch and TensorFlow (JAX: 1/2, HIPS autograd: 0).
    """
    value = np.clip(a, low, high)

    def vjp(g: Array) -> Cotangents:
        return (np.where(a == value, g, 0),)

    return value, vjp
