"""`Tensor`: a NumPy array that records what is computed with it, with PyTorch's method names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from minigrad import autodiff, elementwise, linalg, selection
from minigrad.methods import Methods
from minigrad.modes import recording
from minigrad.node import Node
from minigrad.types import Array, Recorded, Vjp


class Tensor(Methods):
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

    def backward(self, cotangent: ArrayLike | None = None, retain_graph: bool = False) -> None:
        """Add the gradients of this tensor, weighted by `cotangent`, to the leaves' `grad`.

        `cotangent` has the tensor's shape; a tensor of one element does without. A graph serves for
        one `backward()`, unless it is retained. Raises RuntimeError where there is nothing to
        differentiate, where the graph is gone, and where a value that it needs was changed in
        place; ValueError or TypeError for a cotangent of another shape or kind.
        """
        autodiff.backward(self, cotangent, retain_graph)

    def detach(self) -> Tensor:
        """The same data, cut off from the graph."""
        out = _tensor(self.data)
        out.version = self.own_version()
        return out

    def _apply(self, op: Callable[..., Recorded], **options: Any) -> Tensor:
        return apply(op, self, **options)

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

    def maximum(self, other: Operand) -> Tensor:
        """The larger one, element by element; at a tie each gets half of the gradient."""
        return apply(selection.maximum, self, other)

    def minimum(self, other: Operand) -> Tensor:
        """The smaller one, element by element; at a tie each gets half of the gradient."""
        return apply(selection.minimum, self, other)

    def masked_fill(self, mask: Tensor | Array, value: float) -> Tensor:
        """`value` where the `mask` holds, else `self`."""
        return apply(selection.where, value, self, condition=np.array(mask))

    # ----- Comparisons -----

    # They give arrays of booleans, not tensors: there is nothing to differentiate. `==` and `!=`
    # are left to compare identities, so that a tensor can be a key or a member of a set.

    def __lt__(self, other: Operand) -> Array:
        """`self < other`."""
        return _compared(np.less, self, other)

    def __le__(self, other: Operand) -> Array:
        """`self <= other`."""
        return _compared(np.less_equal, self, other)

    def __gt__(self, other: Operand) -> Array:
        """`self > other`."""
        return _compared(np.greater, self, other)

    def __ge__(self, other: Operand) -> Array:
        """`self >= other`."""
        return _compared(np.greater_equal, self, other)

    def eq(self, other: Operand) -> Array:
        """Where the elements are equal."""
        return _compared(np.equal, self, other)

    def ne(self, other: Operand) -> Array:
        """Where the elements differ."""
        return _compared(np.not_equal, self, other)

    # ----- Linear algebra -----

    def matmul(self, other: Operand) -> Tensor:
        """`self @ other`: vectors, matrices, or batches of matrices, as in NumPy."""
        wanted = (self.requires_grad, getattr(other, "requires_grad", False))
        return apply(linalg.matmul, self, other, wanted=wanted)

    __matmul__ = matmul

    def __rmatmul__(self, other: Operand) -> Tensor:
        """`other @ self`."""
        return apply(linalg.matmul, other, self, wanted=(False, self.requires_grad))


Operand = Tensor | Array | float | np.number[Any]
"""What stands on either side of an operator."""

_CONSTANTS = (int, float, np.number, np.ndarray)


def tensor(
    data: ArrayLike, *, dtype: DTypeLike | None = None, requires_grad: bool = False
) -> Tensor:
    """A new leaf with a copy of `data`: `torch.tensor`, except that floats become float64."""
    return Tensor(data, requires_grad, dtype)


def apply(op: Callable[..., Recorded], *operands: Operand, **options: Any) -> Tensor:
    """Compute an op on the operands' arrays, and record it where a gradient may pass."""
    parents: list[Tensor] = []
    arrays: list[Array] = []
    requires_grad = False
    for operand in operands:
        parent = operand if isinstance(operand, Tensor) else _constant(operand, operands)
        parents.append(parent)
        arrays.append(parent.data)
        requires_grad = requires_grad or parent.requires_grad
    value, vjp = op(*arrays, **options)
    if requires_grad and recording.get():
        out = _tensor(value, True, tuple(parents), vjp, op.__name__)
    else:
        out = _tensor(value)
    if out.data.base is not None:  # a view: what is changed in place here is changed there
        for parent in parents:
            if np.may_share_memory(out.data, parent.data):
                out.version = parent.own_version()
    return out


def _tensor(
    value: Array,
    requires_grad: bool = False,
    parents: tuple[Node, ...] = (),
    vjp: Vjp | None = None,
    op: str = "",
) -> Tensor:
    """A node as a tensor, around an array that is not copied."""
    out = Tensor.__new__(Tensor)
    Node.__init__(out, np.asarray(value), requires_grad, parents, vjp, op)
    return out


def _constant(value: Any, operands: tuple[Operand, ...]) -> Tensor:
    """An operand that is no tensor, in the dtype that NumPy gives it beside those that are."""
    if not isinstance(value, _CONSTANTS):
        raise TypeError(
            f"a Tensor works with tensors, NumPy arrays and numbers, not with a "
            f"{type(value).__name__}: wrap it, tensor(...)"
        )
    beside = [x.data for x in operands if isinstance(x, Tensor)]
    return _tensor(np.array(value, np.result_type(value, *beside)))


def _compared(ufunc: np.ufunc, tensor: Tensor, other: Operand) -> Array:
    """A comparison on the arrays; a number stays one, and is rounded to the tensor's dtype."""
    return np.asarray(ufunc(tensor.data, other.data if isinstance(other, Tensor) else other))
