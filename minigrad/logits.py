"""Ops between scores and probabilities.

Each subtracts the largest score before taking exponentials. That does not change the result, but
without it the exponential of a score of 1000 would be infinite.
"""

from __future__ import annotations

import numpy as np

from minigrad.reductions import reduced_axes
from minigrad.types import Array, Axis, Cotangents, Recorded


def logsumexp(a: Array, axis: Axis = None, keepdims: bool = False) -> Recorded:
    """Logarithm of the sum of exponentials; minus infinity for an empty sum.

    If all elements are minus infinity, so is the value, and the slopes are NaN, as in PyTorch.
    """
    axes = reduced_axes(a, axis)
    largest = a.max(axes, keepdims=True, initial=-np.inf)
    # An infinite score is not subtracted: the difference with itself would be NaN.
    shift = np.where(np.isfinite(largest), largest, 0)
    exponentials = np.exp(a - shift)
    total = exponentials.sum(axes, keepdims=True)
    with np.errstate(divide="ignore"):  # the logarithm of 0 is intended
        value = np.log(total) + shift

    def vjp(g: Array) -> Cotangents:
        kept = g if keepdims else np.expand_dims(g, axes)
        return (kept * (exponentials / total),)

    return value if keepdims else value.squeeze(axes), vjp


def softmax(a: Array, axis: int) -> Recorded:
    """Exponentials divided by their sum over `axis`: positive numbers that sum to 1.

    NaN if all scores are minus infinity. Each score changes every probability: for p = softmax(a),
    the cotangent of `a` is p * (g - the sum of g * p over the axis).
    """
    shifted = a - a.max(axis, keepdims=True, initial=-np.inf)
    exponentials = np.exp(shifted)
    value = exponentials / exponentials.sum(axis, keepdims=True)

    def vjp(g: Array) -> Cotangents:
        return (value * (g - (g * value).sum(axis, keepdims=True)),)

    return value, vjp


def log_softmax(a: Array, axis: int) -> Recorded:
    """Logarithm of `softmax`, exact also where the probability itself would round to 0."""
    shifted = a - a.max(axis, keepdims=True, initial=-np.inf)
    value = shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))

    def vjp(g: Array) -> Cotangents:
        return (g - np.exp(value) * g.sum(axis, keepdims=True),)

    return value, vjp
