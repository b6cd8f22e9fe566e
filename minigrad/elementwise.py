"""Ops that work element by element. Two operands broadcast as in NumPy.

An op is a pure function of arrays. It returns its value and its rule, `vjp`, which takes the
cotangent `g` of the value (an array of the value's shape) and returns one cotangent per operand.
"""
# ruff: noqa: A001 - an op has its field's name, and no builtin of that name is used here

from __future__ import annotations

import math

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
        return unbroadcast(g / b, a.shape), unbroadcast(-g * a / b / b, b.shape)

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


def sqrt(a: Array) -> Recorded:
    """Elementwise square root; its slope at 0 is infinite."""
    value = np.sqrt(a)

    def vjp(g: Array) -> Cotangents:
        return (g / (2 * value),)

    return value, vjp


def tanh(a: Array) -> Recorded:
    """Elementwise hyperbolic tangent."""
    value = np.tanh(a)

    def vjp(g: Array) -> Cotangents:
        return (g * (1 - value**2),)

    return value, vjp


def sigmoid(a: Array) -> Recorded:
    """Elementwise logistic function, `1 / (1 + exp(-a))`."""
    small = np.exp(-np.abs(a))  # at most 1: exp(-a) itself would overflow for a very negative `a`
    value = np.where(a < 0, small, 1) / (1 + small)

    def vjp(g: Array) -> Cotangents:
        return (g * value * (1 - value),)

    return value, vjp


def silu(a: Array, beta: Array) -> Recorded:
    """Elementwise `a * sigmoid(beta * a)`; the operands broadcast.

    Also called swish; `beta` may be learned. Source: Ramachandran et al., Searching for Activation
    Functions, 2017.
    """
    gate, _ = sigmoid(beta * a)

    def vjp(g: Array) -> Cotangents:
        slope = gate * (1 - gate)
        da = g * (gate + beta * a * slope)
        dbeta = g * (a * a * slope)
        return unbroadcast(da, a.shape), unbroadcast(dbeta, beta.shape)

    return a * gate, vjp


def gelu(a: Array) -> Recorded:
    """Elementwise `a` times the probability that a standard normal variable is less than `a`.

    The exact form, PyTorch's default. NumPy has no error function, so Python's is called for each
    element: about ten times the cost of `gelu_tanh`. Source: Hendrycks and Gimpel, Gaussian Error
    Linear Units, 2016.
    """
    probability = _erfc(a / -math.sqrt(2)).astype(np.result_type(a, 0.0)) / 2

    def vjp(g: Array) -> Cotangents:
        density = np.exp(-a * a / 2) / math.sqrt(2 * math.pi)
        return (g * (probability + a * density),)

    return a * probability, vjp


_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def gelu_tanh(a: Array) -> Recorded:
    """`gelu` with a tanh for the normal distribution: PyTorch's `approximate="tanh"`.

    At most 5e-4 away from `gelu`. Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.
    """
    scale = math.sqrt(2 / math.pi)
    bent = np.tanh(scale * (a + 0.044715 * a * a * a))

    def vjp(g: Array) -> Cotangents:
        slope = scale * (1 + 3 * 0.044715 * a * a)
        return (g * (1 + bent + a * (1 - bent**2) * slope) / 2,)

    return a * (1 + bent) / 2, vjp


def relu(a: Array) -> Recorded:
    """Elementwise maximum of `a` and 0; NaN stays NaN.

    At 0 any slope from 0 to 1 is a subgradient; we take 0, as PyTorch, TensorFlow and JAX do.
    """

    def vjp(g: Array) -> Cotangents:
        # Selected, not multiplied by a mask: 0 times an infinite cotangent would be NaN.
        return (np.where(a <= 0, 0, g),)

    return np.maximum(a, 0), vjp


def abs(a: Array) -> Recorded:
    """Elementwise absolute value.

    At 0 any slope from -1 to 1 is a subgradient; we take 0, as PyTorch and TensorFlow do (JAX: 1).
    """

    def vjp(g: Array) -> Cotangents:
        return (g * np.sign(a),)

    return np.abs(a), vjp


def to(a: Array, dtype: np.dtype[np.floating]) -> Recorded:
    """The elements in another `dtype`; the cotangents go back to that of `a`."""

    def vjp(g: Array) -> Cotangents:
        return (g.astype(a.dtype),)

    return a.astype(dtype), vjp
