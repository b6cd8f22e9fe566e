"""The methods that compute tensors, under PyTorch's names; `Tensor` inherits them.

Each method is one line: the op that it applies, or a composition of other methods.
"""
# ruff: noqa: A002, A003 - PyTorch's names; no builtin of these names is used in the class

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.typing import DTypeLike

from minigrad import elementwise, indexing, linalg, logits, movement, reductions, selection
from minigrad.types import Array, Axis, Constant


class Methods:
    """The methods whose results are tensors: each is recorded, and has a gradient."""

    __slots__ = ()

    data: Array
    requires_grad: bool

    _apply: ClassVar[Callable[..., Self]]
    """`apply` in `tensor.py`: compute an op on the operands, and record it."""

    # ----- Operators -----

    def __add__(self, other: Self | Constant) -> Self:
        """`self + other`."""
        return self._apply(elementwise.add, self, other)

    def __radd__(self, other: Constant) -> Self:
        """`other + self`."""
        return self._apply(elementwise.add, other, self)

    def __sub__(self, other: Self | Constant) -> Self:
        """`self - other`."""
        return self._apply(elementwise.sub, self, other)

    def __rsub__(self, other: Constant) -> Self:
        """`other - self`."""
        return self._apply(elementwise.sub, other, self)

    def __mul__(self, other: Self | Constant) -> Self:
        """`self * other`."""
        return self._apply(elementwise.mul, self, other)

    def __rmul__(self, other: Constant) -> Self:
        """`other * self`."""
        return self._apply(elementwise.mul, other, self)

    def __truediv__(self, other: Self | Constant) -> Self:
        """`self / other`."""
        return self._apply(elementwise.div, self, other)

    def __rtruediv__(self, other: Constant) -> Self:
        """`other / self`."""
        return self._apply(elementwise.div, other, self)

    def __neg__(self) -> Self:
        """`-self`."""
        return self._apply(elementwise.neg, self)

    def __pow__(self, exponent: float) -> Self:
        """`self ** exponent`, for a number. Raises TypeError for a tensor or an array."""
        if not isinstance(exponent, int | float | np.number):
            raise TypeError(
                f"the exponent is a number, not a {type(exponent).__name__}: "
                "for a positive base, write (exponent * base.log()).exp()"
            )
        return self._apply(elementwise.pow, self, exponent=exponent)

    pow = __pow__

    # ----- Elementwise -----

    def exp(self) -> Self:
        """The exponential."""
        return self._apply(elementwise.exp, self)

    def log(self) -> Self:
        """The natural logarithm."""
        return self._apply(elementwise.log, self)

    def sqrt(self) -> Self:
        """The square root, with an infinite slope at 0."""
        return self._apply(elementwise.sqrt, self)

    def tanh(self) -> Self:
        """The hyperbolic tangent."""
        return self._apply(elementwise.tanh, self)

    def sigmoid(self) -> Self:
        """The logistic function."""
        return self._apply(elementwise.sigmoid, self)

    def relu(self) -> Self:
        """The maximum with 0, with slope 0 at 0."""
        return self._apply(elementwise.relu, self)

    def abs(self) -> Self:
        """The absolute value, with slope 0 at 0."""
        return self._apply(elementwise.abs, self)

    def clamp(self, min: float | None = None, max: float | None = None) -> Self:
        """The elements limited to `min` and `max`, with slope 1 at the bounds."""
        return self._apply(selection.clamp, self, low=min, high=max)

    clip = clamp

    def to(self, dtype: DTypeLike) -> Self:
        """The elements in another float dtype; the tensor itself if it has that one already."""
        if self.data.dtype == dtype:
            return self
        return self._apply(elementwise.to, self, dtype=np.dtype(dtype))

    def maximum(self, other: Self | Constant) -> Self:
        """The larger one, element by element; at a tie each gets half of the gradient."""
        return self._apply(selection.maximum, self, other)

    def minimum(self, other: Self | Constant) -> Self:
        """The smaller one, element by element; at a tie each gets half of the gradient."""
        return self._apply(selection.minimum, self, other)

    def masked_fill(self, mask: Methods | Array, value: float) -> Self:
        """`value` where the `mask` holds, else `self`."""
        return self._apply(selection.where, value, self, condition=np.array(mask))

    # ----- Linear algebra -----

    def matmul(self, other: Self | Constant) -> Self:
        """`self @ other`: vectors, matrices, or batches of matrices, as in NumPy."""
        wanted = (self.requires_grad, getattr(other, "requires_grad", False))
        return self._apply(linalg.matmul, self, other, wanted=wanted)

    __matmul__ = matmul

    def __rmatmul__(self, other: Constant) -> Self:
        """`other @ self`."""
        return self._apply(linalg.matmul, other, self, wanted=(False, self.requires_grad))

    # ----- Reductions -----

    def sum(self, dim: Axis = None, keepdim: bool = False) -> Self:
        """The sum over all axes, one or several."""
        return self._apply(reductions.sum, self, axis=dim, keepdims=keepdim)

    def mean(self, dim: Axis = None, keepdim: bool = False) -> Self:
        """The mean over all axes, one or several."""
        return self._apply(reductions.mean, self, axis=dim, keepdims=keepdim)

    def var(self, dim: Axis = None, *, correction: float = 1, keepdim: bool = False) -> Self:
        """The variance over all axes, one or several: divided by their length - `correction`."""
        return self._apply(reductions.var, self, axis=dim, keepdims=keepdim, correction=correction)

    def prod(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """The product over all axes or one."""
        return self._apply(reductions.prod, self, axis=dim, keepdims=keepdim)

    def norm(self, *, dim: Axis = None, keepdim: bool = False) -> Self:
        """The Euclidean length over all axes, one or several, with slope 0 at 0."""
        return self._apply(reductions.norm, self, axis=dim, keepdims=keepdim)

    def max(self, dim: Axis = None, keepdim: bool = False) -> Self:
        """The largest values, without their indices; ties share the gradient (`torch.amax`)."""
        return self._apply(reductions.max, self, axis=dim, keepdims=keepdim)

    def min(self, dim: Axis = None, keepdim: bool = False) -> Self:
        """The smallest values, without their indices; ties share the gradient (`torch.amin`)."""
        return self._apply(reductions.min, self, axis=dim, keepdims=keepdim)

    amax, amin = max, min

    def cumsum(self, dim: int) -> Self:
        """The cumulative sums along an axis."""
        return self._apply(reductions.cumsum, self, axis=dim)

    def cumprod(self, dim: int) -> Self:
        """The cumulative products along an axis."""
        return self._apply(reductions.cumprod, self, axis=dim)

    # ----- Scores and probabilities -----

    def logsumexp(self, dim: Axis, keepdim: bool = False) -> Self:
        """The logarithm of the sum of exponentials, over one axis or several."""
        return self._apply(logits.logsumexp, self, axis=dim, keepdims=keepdim)

    def softmax(self, dim: int) -> Self:
        """The exponentials divided by their sum over an axis."""
        return self._apply(logits.softmax, self, axis=dim)

    def log_softmax(self, dim: int) -> Self:
        """The logarithm of the softmax."""
        return self._apply(logits.log_softmax, self, axis=dim)

    # ----- Movement -----

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """`reshape(2, -1)` or `reshape((2, -1))`: the same elements in another shape."""
        return self._apply(movement.reshape, self, shape=_unpacked(shape))

    view = reshape

    def transpose(self, dim0: int, dim1: int) -> Self:
        """Two axes swapped."""
        return self._apply(movement.transpose, self, axis0=dim0, axis1=dim1)

    def permute(self, *dims: int | Sequence[int]) -> Self:
        """`permute(1, 2, 0)` or `permute((1, 2, 0))`: the axes in another order."""
        return self._apply(movement.permute, self, axes=_unpacked(dims))

    @property
    def T(self) -> Self:  # noqa: N802 - PyTorch's and NumPy's name
        """The axes in reverse: the transpose of a matrix."""
        if self.data.ndim == 2:
            return self.transpose(0, 1)
        return self.permute(*reversed(range(self.data.ndim)))

    @property
    def mT(self) -> Self:  # noqa: N802 - PyTorch's and NumPy's name
        """The last two axes swapped: the transpose of each matrix in a batch."""
        return self.transpose(-2, -1)

    def expand(self, *shape: int | Sequence[int]) -> Self:
        """Axes of length 1 stretched and axes created on the left; -1 keeps a length."""
        return self._apply(movement.expand, self, shape=_unpacked(shape))

    def squeeze(self, dim: Axis = None) -> Self:
        """Without the axes of length 1: all of them, or those among `dim`."""
        axes = range(self.data.ndim) if dim is None else normalize_axis_tuple(dim, self.data.ndim)
        return self.reshape([n for i, n in enumerate(self.data.shape) if n != 1 or i not in axes])

    def unsqueeze(self, dim: int) -> Self:
        """With an additional axis of length 1, which becomes axis `dim`."""
        return self.reshape(np.expand_dims(self.data, dim).shape)

    def flip(self, *dims: int | Sequence[int]) -> Self:
        """The elements along these axes in reverse."""
        return self._apply(movement.flip, self, axes=tuple(_unpacked(dims)))

    # ----- Indexing -----

    def __getitem__(self, index: Any) -> Self:
        """`self[index]`: integers, slices, masks and arrays of integers, as in NumPy."""
        parts = index if isinstance(index, tuple) else (index,)
        # Copied, as the rule uses them again.
        kept = tuple(np.array(x) if isinstance(x, Methods | np.ndarray) else x for x in parts)
        return self._apply(indexing.getitem, self, index=kept)

    def __iter__(self) -> Iterator[Self]:
        """The tensors along the first axis."""
        return (self[i] for i in range(len(self.data)))

    def gather(self, dim: int, index: Methods | Array) -> Self:
        """One element along axis `dim` for each integer in `index`."""
        return self._apply(indexing.gather, self, axis=dim, index=np.array(index))

    def index_add(self, dim: int, index: Methods | Array, source: Self | Constant) -> Self:
        """The tensor plus the slices of `source`, added at the places in `index` along `dim`."""
        return self._apply(indexing.index_add, self, source, axis=dim, index=np.array(index))

    def sort(self, dim: int = -1) -> tuple[Self, Array]:
        """The elements in ascending order along an axis, by a stable sort, and their indices."""
        order = self.data.argsort(dim, kind="stable")
        return self._apply(indexing.sort, self, axis=dim, order=order), order

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Split along an axis into pieces of `split_size`, the last perhaps shorter, or as listed.

        Raises ValueError if the listed lengths do not add up to that of the axis.
        """
        length = self.data.shape[dim]
        if isinstance(split_size, Sequence):
            ends = [*accumulate(split_size)]
            if ends[-1:] != [length]:
                raise ValueError(f"pieces of {split_size} out of an axis of length {length}")
        else:
            ends = [*range(split_size, length, split_size), length]
        before = (slice(None),) * (dim % self.data.ndim)
        return tuple(self[*before, start:end] for start, end in pairwise([0, *ends]))


def _unpacked(arguments: Sequence[Any]) -> Sequence[int]:
    """Accept both `f(2, 3)` and `f((2, 3))`, like PyTorch."""
    if len(arguments) == 1 and isinstance(arguments[0], Sequence):
        return arguments[0]
    return arguments
