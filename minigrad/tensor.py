"""`Tensor`: a NumPy array that records what is computed with it, with PyTorch's method names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from minigrad import autodiff, elementwise, linalg, movement, reductions
from minigrad.node import Node
from minigrad.types import Array, Axis, Recorded


class Tensor(Node):
    """An array in the graph. `data` is copied; floats become float64, integers stay integers.

    Operators broadcast, and promote dtypes as in NumPy: a Python number never changes a float
    tensor's dtype, an array does. `grad` is an array of the tensor's dtype, or None before the
    first `backward()`.

    Raises TypeError for a tensor of integers or booleans that requires a gradient.
    """

    __slots__ = ()
    __array_ufunc__ = None  # lets `array + tensor` reach Tensor.__radd__

    def __init__(
        self, data: ArrayLike, requires_grad: bool = False, dtype: DTypeLike | None = None
    ) -> None:
        """A new leaf."""
        super().__init__(np.array(data, dtype), requires_grad)
        if requires_grad and self.dtype.kind != "f":
            raise TypeError(
                f"only floating-point tensors can require a gradient, and this one is {self.dtype}:"
                " write 1.0 instead of 1, or pass dtype=float"
            )

    def backward(self, cotangent: ArrayLike | None = None) -> None:
        """Add the gradients of this tensor, weighted by `cotangent`, to the leaves' `grad`.

        `cotangent` has the tensor's shape; a tensor of one element does without. A graph serves for
        one `backward()`. Raises RuntimeError where there is nothing to differentiate, ValueError or
        TypeError for a cotangent of another shape or kind.
        """
        autodiff.backward(self, cotangent)

    def detach(self) -> Tensor:
        """The same data, cut off from the graph."""
        return _tensor(self.data)

    def __iter__(self) -> Iterator[Tensor]:
        """The tensors along the first axis."""
        return (self[i] for i in range(len(self)))

    # ----- Elementwise -----

    def __add__(self, other: Operand) -> Tensor:
        """`self + other`."""
        return apply(elementwise.add, self, other)

    def __radd__(self, other: Operand) -> Tensor:
        """`other + self`."""
        return apply(elementwise.add, other, self)

    def __sub__(self, other: Operand) -> Tensor:
        """`self - other`."""
        return apply(elementwise.sub, self, other)

    def __rsub__(self, other: Operand) -> Tensor:
        """`other - self`."""
        return apply(elementwise.sub, other, self)

    def __mul__(self, other: Operand) -> Tensor:
        """`self * other`."""
        return apply(elementwise.mul, self, other)

    def __rmul__(self, other: Operand) -> Tensor:
        """`other * self`."""
        return apply(elementwise.mul, other, self)

    def __truediv__(self, other: Operand) -> Tensor:
        """`self / other`."""
        return apply(elementwise.div, self, other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        """`other / self`."""
        return apply(elementwise.div, other, self)

    def __neg__(self) -> Tensor:
        """`-self`."""
        return apply(elementwise.neg, self)

    def __pow__(self, exponent: float) -> Tensor:
        """`self ** exponent`, for a number. Raises TypeError for a tensor or an array."""
        if not isinstance(exponent, int | float | np.number):
            raise TypeError(
                f"the exponent is a number, not a {type(exponent).__name__}: "
                "for a positive base, write (exponent * base.log()).exp()"
            )
        return apply(elementwise.pow, self, exponent=exponent)

    pow = __pow__

    def exp(self) -> Tensor:
        """The exponential."""
        return apply(elementwise.exp, self)

    def log(self) -> Tensor:
        """The natural logarithm."""
        return apply(elementwise.log, self)

    def tanh(self) -> Tensor:
        """The hyperbolic tangent."""
        return apply(elementwise.tanh, self)

    def relu(self) -> Tensor:
        """The maximum with 0, with slope 0 at 0."""
        return apply(elementwise.relu, self)

    def abs(self) -> Tensor:
        """The absolute value, with slope 0 at 0."""
        return apply(elementwise.abs, self)

    # ----- Reductions -----

    def sum(self, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """The sum over all axes, one or several."""
        return apply(reductions.sum, self, axis=dim, keepdims=keepdim)

    def mean(self, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """The mean over all axes, one or several."""
        return apply(reductions.mean, self, axis=dim, keepdims=keepdim)

    def max(self, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """The largest values, without their indices; ties share the gradient (`torch.amax`)."""
        return apply(reductions.max, self, axis=dim, keepdims=keepdim)

    # ----- Linear algebra -----

    def matmul(self, other: Operand) -> Tensor:
        """`self @ other`: vectors, matrices, or batches of matrices, as in NumPy."""
        wanted = (self.requires_grad, getattr(other, "requires_grad", False))
        return apply(linalg.matmul, self, other, wanted=wanted)

    __matmul__ = matmul

    def __rmatmul__(self, other: Operand) -> Tensor:
        """`other @ self`."""
        return apply(linalg.matmul, other, self, wanted=(False, self.requires_grad))

    # ----- Movement -----

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        """`reshape(2, -1)` or `reshape((2, -1))`: the same elements in another shape."""
        return apply(movement.reshape, self, shape=_unpacked(shape))

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """Two axes swapped."""
        return apply(movement.transpose, self, axis0=dim0, axis1=dim1)

    def permute(self, *dims: int | Sequence[int]) -> Tensor:
        """`permute(1, 2, 0)` or `permute((1, 2, 0))`: the axes in another order."""
        return apply(movement.permute, self, axes=_unpacked(dims))

    @property
    def T(self) -> Tensor:  # noqa: N802 - PyTorch's and NumPy's name
        """The axes in reverse: the transpose of a matrix."""
        return self.permute(*reversed(range(self.ndim)))

    @property
    def mT(self) -> Tensor:  # noqa: N802 - PyTorch's and NumPy's name
        """The last two axes swapped: the transpose of each matrix in a batch."""
        return self.transpose(-2, -1)

    def __getitem__(self, index: Any) -> Tensor:
        """`self[index]`: integers, slices, masks and arrays of integers, as in NumPy."""
        parts = index if isinstance(index, tuple) else (index,)
        arrays = tuple(part.data if isinstance(part, Tensor) else part for part in parts)
        return apply(movement.getitem, self, index=arrays)


Operand = Tensor | Array | float | np.number[Any]
"""What stands on either side of an operator."""


def tensor(
    data: ArrayLike, *, dtype: DTypeLike | None = None, requires_grad: bool = False
) -> Tensor:
    """A new leaf with a copy of `data`: `torch.tensor`, except that floats become float64."""
    return Tensor(data, requires_grad, dtype)


def apply(op: Callable[..., Recorded], *operands: Operand, **options: Any) -> Tensor:
    """Compute an op on the operands' arrays, and record it where a gradient may pass."""
    parents = tuple([x if isinstance(x, Tensor) else _constant(x, operands) for x in operands])
    value, vjp = op(*[parent.data for parent in parents], **options)
    if autodiff.recording.get() and any(parent.requires_grad for parent in parents):
        return _tensor(value, True, parents, vjp, op.__name__)
    return _tensor(value)


def _tensor(value: Array, *record: Any) -> Tensor:
    """A tensor around an array that is not copied, with what Node takes to `record` it."""
    out = Tensor.__new__(Tensor)
    Node.__init__(out, np.asarray(value), *record)
    return out


def _constant(value: Any, operands: tuple[Operand, ...]) -> Tensor:
    """An operand that is no tensor, in the dtype that NumPy gives it beside those that are."""
    if not isinstance(value, int | float | np.number | np.ndarray):
        raise TypeError(
            f"a Tensor works with tensors, NumPy arrays and numbers, not with a "
            f"{type(value).__name__}: wrap it, tensor(...)"
        )
    beside = [x.data for x in operands if isinstance(x, Tensor)]
    return Tensor(value, dtype=np.result_type(value, *beside))


def _unpacked(arguments: Sequence[Any]) -> Sequence[int]:
    """PyTorch takes `f(2, 3)` and `f((2, 3))` alike."""
    if len(arguments) == 1 and isinstance(arguments[0], Sequence):
        return arguments[0]
    return arguments
