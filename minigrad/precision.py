"""Half precision: values are stored in float16, and computed in float32.

float16 has 11 significant bits and ends at 65504. Added up in float16, ones stop at 2048, since
2049 is rounded to 2048, and the square of 256 is already infinite. So an op gets float16 operands
in float32, and so does its rule the cotangent; what they return is rounded once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from minigrad.types import Array, Cotangents, Recorded

HALF = np.dtype(np.float16)

AS_STORED = frozenset(
    {"reshape", "transpose", "permute", "expand", "flip", "getitem", "to", "forget"}
)
"""Ops whose value is a view of the operand, or has a dtype of its own: it is not rounded."""


_CONSTANTS = (int, float, np.number, np.ndarray)


def constant(value: Any, arrays: Iterable[Array]) -> Array:
    """Return an operand that is not a tensor as an array, in the dtype that NumPy promotes it to.

    `arrays` are those of the tensors among the operands. Raises TypeError if it is neither an array
    nor a number.
    """
    if not isinstance(value, _CONSTANTS):
        raise TypeError(
            f"a Tensor works with tensors, NumPy arrays and numbers, not with a "
            f"{type(value).__name__}: wrap it, tensor(...)"
        )
    dtype = np.result_type(value, *arrays)
    if dtype == HALF and isinstance(value, int | float):
        dtype = np.dtype(np.float32)  # a number is not stored, and need not be rounded
    return np.array(value, dtype)


def in_single(
    op: Callable[..., Recorded], arrays: Sequence[Array], options: dict[str, Any]
) -> Recorded:
    """Compute an op whose value is float16, and later its rule, in float32."""
    if op.__name__ in AS_STORED:
        value, vjp = op(*arrays, **options)
    else:
        value, vjp = op(*map(widened, arrays), **options)
        if value.dtype == np.float32:
            value = value.astype(HALF)

    def vjp_in_single(g: Array) -> Cotangents:
        return vjp(widened(g))  # `accumulate` rounds what it returns

    return value, vjp_in_single


def widened(array: Array) -> Array:
    """The array in float32 if it is float16, else the array itself."""
    return array.astype(np.float32) if array.dtype == HALF else array
