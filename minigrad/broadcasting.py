"""The gradient side of NumPy's broadcasting."""

from __future__ import annotations

from minigrad.types import Array


def unbroadcast(cotangent: Array, shape: tuple[int, ...]) -> Array:
    """Sum a cotangent back to the `shape` that an operand had before it was broadcast.

    Broadcasting repeats an operand along the axes that it creates on the left and along those of
    length 1 that it stretches. Each copy has its own effect on the result; the operand's cotangent
    is their sum. A cotangent that already has the `shape` is returned without a copy.
    """
    if cotangent.shape == shape:
        return cotangent
    created = tuple(range(cotangent.ndim - len(shape)))
    if created:
        cotangent = cotangent.sum(axis=created)
    if cotangent.shape != shape:
        stretched = tuple(axis for axis, length in enumerate(shape) if length == 1)
        cotangent = cotangent.sum(axis=stretched, keepdims=True)
    return cotangent
