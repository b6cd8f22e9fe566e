"""A node of the graph: an array, and how it was computed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from minigrad.types import Array, Vjp


class Node:
    """A value in the graph: a leaf, or the result of an op.

    A result remembers its parents and the rule (`vjp`) that turns its cotangent into theirs. Rules
    know arrays and no nodes, and nodes know no children: there are no reference cycles.
    """

    __slots__ = ("__weakref__", "data", "grad", "op", "parents", "requires_grad", "vjp")

    def __init__(
        self,
        data: Array,
        requires_grad: bool = False,
        parents: tuple[Node, ...] = (),
        vjp: Vjp | None = None,
        op: str = "",
    ) -> None:
        """A leaf unless it has a `vjp`."""
        self.data = data
        self.requires_grad = requires_grad
        self.grad: Array | None = None
        self.parents = parents
        self.vjp = vjp
        self.op = op

    @property
    def is_leaf(self) -> bool:
        """Whether it was given and not computed. Only leaves get a `grad`."""
        return self.vjp is None

    # ----- As an array -----

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self.data.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.data.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return self.data.dtype

    def size(self, dim: int | None = None) -> tuple[int, ...] | int:
        """The shape, or the length of one axis (a method, as in PyTorch)."""
        return self.shape if dim is None else self.shape[dim]

    def __len__(self) -> int:
        """The length of the first axis."""
        return len(self.data)

    def __bool__(self) -> bool:
        """The truth of the only element, not of the length."""
        return bool(self.data)

    def __repr__(self) -> str:
        """The values, the dtype unless it is float64, and the part in the graph."""
        name = type(self).__name__
        notes = [np.array2string(self.data, separator=", ", prefix=f"{name}(")]
        if self.dtype != np.float64:
            notes.append(f"dtype={self.dtype}")
        if self.requires_grad:
            notes.append("requires_grad=True" if self.is_leaf else f"op={self.op}")
        return f"{name}({', '.join(notes)})"

    def numpy(self) -> Array:
        """The array itself, not a copy."""
        return self.data

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """For `np.asarray(tensor)`."""
        return np.array(self.data, dtype, copy=copy)

    def item(self) -> Any:
        """The only element, as a Python number. Raises ValueError if there are more."""
        return self.data.item()
