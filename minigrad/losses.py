"""Loss functions of predictions and targets; they return scalars."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, ParamSpec

import numpy as np

from minigrad import layer_ops
from minigrad.precision import HALF, widened
from minigrad.tensor import Tensor, apply
from minigrad.types import Array

Reduction = Literal["mean", "sum"]
"""Over all elements, or in `cross_entropy` over all targets that count."""

_P = ParamSpec("_P")


def _rounded_once(loss: Callable[_P, Tensor]) -> Callable[_P, Tensor]:
    """The loss in float32 if all that it compares is float16, and rounded at the end."""

    @wraps(loss)
    def rounded(*args: _P.args, **kwargs: _P.kwargs) -> Tensor:
        compared = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor | np.ndarray)]
        if any(x.dtype != HALF for x in compared):
            return loss(*args, **kwargs)
        wide: Callable[..., Tensor] = loss
        return wide(*map(_wide, args), **{key: _wide(x) for key, x in kwargs.items()}).to(HALF)

    return rounded


def _wide(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x.to(np.float32) if x.dtype == HALF else x
    return widened(x) if isinstance(x, np.ndarray) else x


# ----- Of real numbers -----


@_rounded_once
def mse(prediction: Tensor, target: Tensor | Array, reduction: Reduction = "mean") -> Tensor:
    """Squared error, reduced over all elements.

    Raises ValueError where the shapes differ: broadcasting (n, 1) against (n,) would compare every
    prediction with every target.
    """
    if prediction.shape != target.shape:
        raise ValueError(
            f"the prediction has shape {prediction.shape}, but the target has shape "
            f"{target.shape}: reshape one of them, mse does not broadcast"
        )
    return _reduced((prediction - target) ** 2, reduction)


@_rounded_once
def mae(prediction: Tensor, target: Tensor | Array, reduction: Reduction = "mean") -> Tensor:
    """Absolute error, reduced over all elements. Raises ValueError where the shapes differ."""
    _check_shapes(prediction, target)
    return _reduced((prediction - target).abs(), reduction)


@_rounded_once
def huber(
    prediction: Tensor,
    target: Tensor | Array,
    delta: float = 1.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Half the squared error up to `delta`, and linear with slope `delta` beyond it.

    Raises ValueError where the shapes differ. Source: Huber, Robust Estimation of a Location
    Parameter, 1964.
    """
    _check_shapes(prediction, target)
    error = (prediction - target).abs()
    beyond = (error - delta).relu()
    within = error - beyond
    return _reduced(0.5 * within**2 + delta * beyond, reduction)


# ----- Of probabilities -----


def cross_entropy(
    logits: Tensor,
    targets: Tensor | Array,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Minus the log-probability of each target: logits (n, classes), targets n integers.

    `logits` are scores before any softmax. Targets equal to `ignore_index` count neither in the sum
    nor in the mean. With `label_smoothing`, that part of each target's weight of 1 is shared
    equally by all classes. Raises TypeError for targets that are not integers, ValueError for
    other shapes or an empty mean, IndexError for a target that is not a class.
    """
    targets = np.asarray(targets)
    if targets.dtype.kind not in "iu":
        raise TypeError(f"targets are class numbers, integers, and these are {targets.dtype}")
    if logits.ndim != 2 or targets.shape != logits.shape[:1]:
        raise ValueError(
            f"logits of shape {logits.shape} and targets of shape {targets.shape}: "
            "reshape them to (n, classes) and (n,)"
        )
    counts = targets != ignore_index
    classes = targets[counts]
    if len(classes) and (classes.min() < 0 or classes.max() >= logits.shape[1]):
        raise IndexError(  # -1 would be the last class
            f"targets from {classes.min()} to {classes.max()}, but the logits have classes 0 to "
            f"{logits.shape[1] - 1}"
        )
    count = len(classes) if _is_mean(reduction) else 1
    if not count:
        raise ValueError("no target counts, so there is no mean: skip this batch")
    if label_smoothing:
        hard = cross_entropy(logits, targets, ignore_index, reduction)
        uniform = -logits.log_softmax(1)[counts].mean(1).sum() / count
        return (1 - label_smoothing) * hard + label_smoothing * uniform
    options = {"targets": targets, "counts": counts, "denominator": count}
    return apply(layer_ops.cross_entropy, logits, **options)


@_rounded_once
def binary_cross_entropy_with_logits(
    logits: Tensor, target: Tensor | Array, reduction: Reduction = "mean"
) -> Tensor:
    """Minus the log-probability of `target`, from 0 to 1; `logits` are scores before a sigmoid.

    `softplus(x) - x * target`, which neither overflows nor takes the logarithm of 0. Raises
    ValueError where the shapes differ.
    """
    _check_shapes(logits, target)
    return _reduced(apply(layer_ops.softplus, logits) - logits * target, reduction)


@_rounded_once
def kl_div(log_prediction: Tensor, log_target: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Relative entropy KL(target || prediction) of distributions given as log-probabilities.

    As `torch.nn.functional.kl_div(..., log_target=True)`: the prediction comes first, and "mean" is
    over all elements; the mean over distributions is "sum" divided by their number. Raises
    ValueError where the shapes differ.
    """
    _check_shapes(log_prediction, log_target)
    return _reduced(log_target.exp() * (log_target - log_prediction), reduction)


def _check_shapes(prediction: Tensor, target: Tensor | Array) -> None:
    """Raise ValueError if the shapes differ, as broadcasting would hide it."""
    if prediction.shape != target.shape:
        raise ValueError(
            f"the prediction has shape {prediction.shape}, but the target has shape {target.shape}"
        )


def _reduced(losses: Tensor, reduction: Reduction) -> Tensor:
    return losses.mean() if _is_mean(reduction) else losses.sum()


def _is_mean(reduction: Reduction) -> bool:
    if reduction not in ("mean", "sum"):
        raise ValueError(f"no reduction {reduction!r}: 'mean' or 'sum'")
    return reduction == "mean"
