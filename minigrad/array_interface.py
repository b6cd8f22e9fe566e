"""The view of a tensor as an array: shape, dtype, values, comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from minigrad.types import Array, Constant, Vjp


class ArrayInterface:
    """The methods of a tensor that expose its array; none of them is recorded."""

    __slots__ = ()

    data: Array
    op: str
    requires_grad: bool
    vjp: Vjp | None

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
        """The values, the dtype unless it is float64, and the role in the graph."""
        name = type(self).__name__
        notes = [np.array2string(self.data, separator=", ", prefix=f"{name}(")]
        if self.dtype != np.float64:
            notes.append(f"dtype={self.dtype}")
        if self.requires_grad:
            notes.append("requires_grad=True" if self.vjp is None else f"op={self.op}")
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

    # ----- Comparisons -----

    # They return arrays of booleans, not tensors: there is nothing to differentiate. `==` and `!=`
    # compare identities, so that a tensor can be a dictionary key or a member of a set.

    def __lt__(self, other: ArrayInterface | Constant) -> Array:
        """`self < other`."""
        return self._compare(np.less, other)

    def __le__(self, other: ArrayInterface | Constant) -> Array:
        """`self <= other`."""
        return self._compare(np.less_equal, other)

    def __gt__(self, other: ArrayInterface | Constant) -> Array:
        """`self > other`."""
        return self._compare(np.greater, other)

    def __ge__(self, other: ArrayInterface | Constant) -> Array:
        """`self >= other`."""
        return self._compare(np.greater_equal, other)

    def eq(self, other: ArrayInterface | Constant) -> Array:
        """Where the elements are equal."""
        return self._compare(np.equal, other)

    def ne(self, other: ArrayInterface | Constant) -> Array:
        """Where the elements differ."""
        return self._compare(np.not_equal, other)

    def _compare(self, ufunc: np.ufunc, other: ArrayInterface | Constant) -> Array:
        """Compare the arrays; a Python number is rounded to the tensor's dtype."""
        return np.asarray(
            ufunc(self.data, other.data if isinstance(other, ArrayInterface) else other)
        )
