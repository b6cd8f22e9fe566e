"""Ops that work element by element. Two operands broadcast as in NumPy.

An op is a pure function of arrays. It returns its value and its rule, `vjp`, which is handed the
cotangent `g` of the value (an array of the value's shape) and returns one cotangent per operand.
"""
# ruff: noqa: A001 - an op has its field's name, and no builtin of that name is used here

from __future__ import annotations

import numpy as np

from minigrad.broadcasting import unbroadcast
from minigrad.types import Array, Cotangents, Recorded

# ----- Two operands -----


def add(a: Array, b: Array) -> Recorded:
    """Elementwise `a + b`."""

    def vjp(g: Array) -> Cotangents:
        return unbroadcast(g, a.shape), unbroadcast(g, b.shape)

    return a + b, vjp


def sub(a: Array, b: Array) -> Recorded:
    """Elementwise `a - b`."""

    def vjp(g: Array) -> Cotangents:
        return unbroadcast(g, a.shape), unbroadcast(-g, b.shape)

    return a - b, vjp


def mul(a: Array, b: Array) -> Recorded:
    """Elementwise `a * b`."""

    def vjp(g: Array) -> Cotangents:
        return unbroadcast(g * b, a.shape), unbroadcast(g * a, b.shape)

    return a * b, vjp


def div(a: Array, b: Array) -> Recorded:
    """Elementwise true division `a / b`; integers give floats."""

    def vjp(g: Array) -> Cotangents:
        return unbroadcast(g / b, a.shape), unbroadcast(-g * a / b**2, b.shape)

    return a / b, vjp


# ----- One operand -----


def neg(a: Array) -> Recorded:
    """Elementwise `-a`."""

    def vjp(g: Array) -> Cotangents:
        return (-g,)

    return -a, vjp


def pow(a: Array, exponent: float) -> Recorded:
    """Elementwise `a ** exponent`, for a constant exponent.

    The derivative for exponent 0 is 0 everywhere, also at `a` = 0.
    """

    def vjp(g: Array) -> Cotangents:
        if exponent == 0:
            return (np.zeros_like(g),)
        return (g * (exponent * a ** (exponent - 1)),)

    return a**exponent, vjp


def exp(a: Array) -> Recorded:
    """Elementwise exponential."""
    value = np.exp(a)

    def vjp(g: Array) -> Cotangents:
        return (g * value,)

    return value, vjp


def log(a: Array) -> Recorded:
    """Elementwise natural logarithm."""

    def vjp(g: Array) -> Cotangents:
        return (g / a,)

    return np.log(a), vjp


def tanh(a: Array) -> Recorded:
    """Elementwise hyperbolic tangent."""
    value = np.tanh(a)

    def vjp(g: Array) -> Cotangents:
        return (g * (1 - value**2),)

    return value, vjp


def relu(a: Array) -> Recorded:
    """Elementwise maximum of `a` and 0; NaN stays NaN.

    At 0 any slope from 0 to 1 is a subgradient; we take 0, as PyTorch, TensorFlow and JAX do.
    """

    def vjp(g: Array) -> Cotangents:
        # Chosen, not multiplied by a mask: 0 times an infinite cotangent would be NaN.
        return (np.where(a <= 0, 0, g),)

    return np.maximum(a, 0), vjp


def abs(a: Array) -> Recorded:
    """Elementwise absolute value.

    At 0 any slope from -1 to 1 is a subgradient; we take 0, as PyTorch and TensorFlow do (JAX: 1).
    """

    def vjp(g: Array) -> Cotangents:
        return (g * np.sign(a),)

    return np.abs(a), vjp
