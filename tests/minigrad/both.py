"""One program on the leaves of minigrad and on those of PyTorch; what it returns is compared."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from minigrad import Tensor
from minigrad.types import Array
from tests.minigrad.against_torch import compare, draw

Leaves = list[Any]
"""Tensors of either library."""


def copied(gradient: Any) -> Array:
    return np.asarray(gradient).copy()


def in_both(program: Callable[[Leaves], list[Any]], *shapes: tuple[int, ...]) -> None:
    """The program gets leaves of each library, and returns the gradients to compare, or None."""
    arrays = draw(*shapes)
    ours = program([Tensor(array, requires_grad=True) for array in arrays])
    theirs = program([torch.tensor(array, requires_grad=True) for array in arrays])
    assert [x is None for x in ours] == [x is None for x in theirs]
    for i, (actual, other) in enumerate(zip(ours, theirs, strict=True)):
        if actual is not None:
            compare(f"array {i}", np.asarray(actual), np.asarray(other))
