"""Ops of layers and losses that would be slow or imprecise as compositions of smaller ones."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from minigrad.broadcasting import unbroadcast
from minigrad.types import Array, Cotangents, Recorded


def linear(x: Array, weight: Array, bias: Array, *, wanted: bool) -> Recorded:
    """`x @ weight.T + bias`: (..., in), (out, in), (out,) -> (..., out).

    For Y = X Wᵀ + b, dX = dY W, dW = dYᵀ X, and db sums dY over all rows. dX is not computed unless
    it is `wanted`. Raises ValueError if the lengths differ.
    """

    def vjp(g: Array) -> Cotangents:
        dx = g @ weight if wanted else None
        dweight = g.reshape(-1, g.shape[-1]).T @ x.reshape(-1, x.shape[-1])
        return dx, dweight, unbroadcast(g, bias.shape)

    return x @ weight.T + bias, vjp


def softplus(a: Array) -> Recorded:
    """Elementwise `log(1 + exp(a))`, without overflow; its derivative is the logistic function."""
    value = np.maximum(a, 0) + np.log1p(np.exp(-np.abs(a)))

    def vjp(g: Array) -> Cotangents:
        return (g * np.exp(a - value),)

    return value, vjp


def cross_entropy(a: Array, targets: Array, counts: Array, denominator: int) -> Recorded:
    """Minus the log-probability of the target, summed over rows that count, / `denominator`.

    Scores (n, classes), targets n integers, `counts` n booleans. The cotangent of a row that counts
    is its probabilities, less 1 at its target: the prediction minus the truth.
    """
    (rows,) = counts.nonzero()
    classes = targets[rows]
    shifted = a - a.max(1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))

    def vjp(g: Array) -> Cotangents:
        error = np.exp(log_p)
        error[rows, classes] -= 1
        if len(rows) < len(a):
            error[~counts] = 0
        return (error * (g / denominator),)

    return -log_p[rows, classes].sum() / denominator, vjp


def dropout(a: Array, kept: Array, p: float) -> Recorded:
    """The elements where the mask `kept` is true, divided by their probability 1 - `p`; else 0.

    Source: Srivastava et al., Dropout, 2014, section 10: scaled in training, not in evaluation.
    """

    def vjp(g: Array) -> Cotangents:
        return (g * kept / (1 - p),)

    return a * kept / (1 - p), vjp


def conv2d(x: Array, weight: Array, stride: int, padding: int) -> Recorded:
    """Cross-correlation of images with kernels, called convolution in machine learning.

    (batch, channels, height, width), (out, channels, *kernel) -> (batch, out, height', width') with
    `height' = (height + 2 * padding - kernel[0]) // stride + 1`. Raises ValueError if the channels
    differ or a kernel is larger than the padded image.
    """
    kernel = weight.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = sliding_window_view(padded, kernel, (2, 3))[:, :, ::stride, ::stride]
    batch, channels, height, width = windows.shape[:4]
    # As a matrix product: a row for each element of a window, a column for each window.
    columns = windows.transpose(0, 1, 4, 5, 2, 3).reshape(batch, -1, height * width)
    flat_weight = weight.reshape(len(weight), -1)
    value = (flat_weight @ columns).reshape(batch, -1, height, width)

    def vjp(g: Array) -> Cotangents:
        flat = g.reshape(batch, len(weight), -1)
        dweight = (flat @ columns.swapaxes(1, 2)).sum(0).reshape(weight.shape)
        dwindows = (flat_weight.T @ flat).reshape(batch, channels, *kernel, height, width)
        dpadded = np.zeros(padded.shape, g.dtype)
        for i, j in np.ndindex(kernel):  # the windows overlap, but not in the same (i, j)
            rows = slice(i, i + stride * height, stride)
            places = slice(j, j + stride * width, stride)
            dpadded[:, :, rows, places] += dwindows[:, :, i, j]
        bottom, right = padding + x.shape[2], padding + x.shape[3]
        return dpadded[:, :, padding:bottom, padding:right], dweight

    return value, vjp


def avg_pool2d(x: Array, kernel: int, stride: int, padding: int, counted: bool) -> Recorded:
    """The mean of each window: (batch, channels, height, width) -> (..., height', width').

    `height' = (height + 2 * padding - kernel) // stride + 1`. The zeros of the padding count as
    elements only if they are `counted`. Raises ValueError for a kernel larger than the padded
    image.
    """
    frame = ((padding, padding), (padding, padding))
    padded = np.pad(x, ((0, 0), (0, 0), *frame))
    inside = np.pad(np.full(x.shape[2:], 1, x.dtype), frame, constant_values=counted)

    def windows(image: Array) -> Array:
        shape = (kernel, kernel)
        return sliding_window_view(image, shape, (-2, -1))[..., ::stride, ::stride, :, :]

    count = windows(inside).sum((-2, -1))

    def vjp(g: Array) -> Cotangents:
        share = g / count
        dpadded = np.zeros(padded.shape, g.dtype)
        height, width = share.shape[2:]
        for i, j in np.ndindex(kernel, kernel):  # the windows overlap, but not in the same (i, j)
            rows = slice(i, i + stride * height, stride)
            dpadded[:, :, rows, j : j + stride * width : stride] += share
        bottom, right = padding + x.shape[2], padding + x.shape[3]
        return (dpadded[:, :, padding:bottom, padding:right],)

    return windows(padded).sum((-2, -1)) / count, vjp


def max_pool2d(x: Array, kernel: int, stride: int) -> Recorded:
    """The largest value in each window: (batch, channels, height, width) -> (..., height', width').

    `height' = (height - kernel) // stride + 1`; elements outside all windows are ignored. Of tied
    elements, the first gets the cotangent, as in PyTorch. Raises ValueError for a kernel that is
    larger than the image.
    """
    windows = sliding_window_view(x, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]
    flat = windows.reshape(*windows.shape[:4], kernel * kernel)
    winner = flat.argmax(-1)

    def vjp(g: Array) -> Cotangents:
        dx = np.zeros(x.shape, g.dtype)
        image, channel, row, column = np.indices(winner.shape)
        place = row * stride + winner // kernel, column * stride + winner % kernel
        np.add.at(dx, (image, channel, *place), g)  # an element may win in several windows
        return (dx,)

    return flat.max(-1), vjp
